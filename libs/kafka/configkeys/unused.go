package configkeys

// unused are the node keys that no part of this version reads: they have no
// counterpart in Cauce, or what they rule is still to come. A lint test keeps
// the list equal to what the code reads.
var unused = map[string]bool{}

// Unused reports whether a node key is accepted without effect in this version.
func Unused(name string) bool { return unused[name] }
