package configkeys

// Unused reports whether a key is accepted without effect in this version.
func Unused(name string) bool { return unused[name] }

// unused are the keys that no part of this version reads: they have no
// counterpart in Cauce, or what they rule is still to come. A lint test keeps
// the list equal to what the code reads.
var unused = map[string]bool{}
