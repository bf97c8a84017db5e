package data

// What a record has in the place of a number that it lacks.
const (
	NoPartition = -1
	NoOffset    = -1
	NoTimestamp = -1
)

// Record is a record on its way between a connector and a topic. [NewRecord] makes one without partition, offset and
// timestamp; a literal that leaves these out has 0 in their place.
type Record struct {
	Topic string
	// Partition is NoPartition where the partitioner is to choose.
	Partition int32
	// Offset is the record's in its topic: NoOffset until it has one.
	Offset int64
	// TimestampMs is in milliseconds since 1970, or NoTimestamp.
	TimestampMs int64
	Key, Value  Value
	Headers     []Header
}

// Header is a header of a record. Names may repeat.
type Header struct {
	Name  string
	Value Value
}

// NewRecord returns a record that has neither partition nor offset nor timestamp yet.
func NewRecord(topic string, key, value Value) Record {
	return Record{Topic: topic, Partition: NoPartition, Offset: NoOffset, TimestampMs: NoTimestamp, Key: key, Value: value}
}
