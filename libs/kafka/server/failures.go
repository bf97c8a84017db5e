package server

import (
	"reflect"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxLooked bounds the elements of an answer that are looked at for errors.
const maxLooked = 256

// answerPlan says where a type of answers, or of their parts, has error codes.
type answerPlan struct {
	code  int   // index of the field ErrorCode, -1 for none
	lists []int // indices of fields that hold parts with error codes
	parts []*answerPlan
}

var answerPlans sync.Map // *answerPlan by reflect.Type

// failureIn is the first error code in an answer that is a failure, 0 for none.
func failureIn(m kmsg.Response) int16 {
	v := reflect.ValueOf(m).Elem()
	looked := 0
	return planOf(v.Type()).failure(v, &looked)
}

func (p *answerPlan) failure(v reflect.Value, looked *int) int16 {
	if p.code >= 0 {
		if code := int16(v.Field(p.code).Int()); isFailure(code) {
			return code
		}
	}
	for i, field := range p.lists {
		list := v.Field(field)
		for j := 0; j < list.Len() && *looked < maxLooked; j++ {
			*looked++
			if code := p.parts[i].failure(list.Index(j), looked); code != 0 {
				return code
			}
		}
	}
	return 0
}

func planOf(t reflect.Type) *answerPlan {
	if known, ok := answerPlans.Load(t); ok {
		return known.(*answerPlan)
	}
	p := &answerPlan{code: -1}
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Name == "ErrorCode" && f.Type.Kind() == reflect.Int16:
			p.code = i
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			if part := planOf(f.Type.Elem()); part.code >= 0 || len(part.lists) > 0 {
				p.lists = append(p.lists, i)
				p.parts = append(p.parts, part)
			}
		}
	}
	answerPlans.Store(t, p)
	return p
}
