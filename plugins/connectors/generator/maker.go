package generator

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// The formats of values.
const (
	formatText  = "text"
	formatBytes = "bytes"
	formatOrder = "order"
)

const letters = "abcdefghijklmnopqrstuvwxyz012345" // 32 of them

var (
	textSchema  = &data.Schema{Type: data.TypeString}
	bytesSchema = &data.Schema{Type: data.TypeBytes}
	orderSchema = &data.Schema{Type: data.TypeStruct, Name: "cauce.generator.Order", Version: new(int32(1)), Fields: []data.Field{
		{Name: "id", Schema: &data.Schema{Type: data.TypeInt64}},
		{Name: "customer", Schema: &data.Schema{Type: data.TypeString}},
		{Name: "item", Schema: &data.Schema{Type: data.TypeString}},
		{Name: "quantity", Schema: &data.Schema{Type: data.TypeInt32}},
		{Name: "price", Schema: &data.Schema{Type: data.TypeFloat64}},
		{Name: "note", Schema: &data.Schema{Type: data.TypeString, Optional: true}},
		{Name: "placed", Schema: data.TimestampSchema()},
	}}
	items = []string{"book", "chair", "coffee", "lamp", "pencil", "tea"}
	epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
)

// maker makes the record of a number, always the same.
type maker struct {
	format string
	size   int
	keys   int64
	seed   uint64
	task   string
}

func (m *maker) record(number int64) (key, value data.Value) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(m.task)) // never fails
	random := rand.NewPCG(m.seed^hash.Sum64(), uint64(number))
	if m.keys > 0 {
		key = data.Value{Schema: textSchema, V: "key-" + strconv.FormatUint(random.Uint64()%uint64(m.keys), 10)}
	}
	switch m.format {
	case formatBytes:
		value = data.Value{Schema: bytesSchema, V: fill(random, m.size, func(five byte) byte { return five | five<<5 })}
	case formatOrder:
		value = data.Value{Schema: orderSchema, V: order(random, number)}
	default:
		value = data.Value{Schema: textSchema, V: string(fill(random, m.size, func(five byte) byte { return letters[five] }))}
	}
	return key, value
}

// fill makes bytes of five random bits each.
func fill(random *rand.PCG, size int, of func(byte) byte) []byte {
	text := make([]byte, size)
	var bits uint64
	for i := range text {
		if i%12 == 0 {
			bits = random.Uint64()
		}
		text[i] = of(byte(bits & 31))
		bits >>= 5
	}
	return text
}

func order(random *rand.PCG, number int64) *data.Struct {
	r := rand.New(random)
	var note any
	if r.IntN(4) == 0 {
		note = "as a present"
	}
	return &data.Struct{Schema: orderSchema, Values: []any{
		number, "customer-" + strconv.Itoa(r.IntN(1000)), items[r.IntN(len(items))], int32(1 + r.IntN(9)), float64(1+r.IntN(10_000)) / 100,
		note, epoch.Add(time.Duration(number) * time.Second),
	}}
}
