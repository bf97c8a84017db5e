package groupapi

import (
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var departed = []Departure{
	{Ago: 15 * time.Second, Member: "app-1", Client: "app", Host: "/10.0.0.1", Reason: "consumer poll timeout has expired."},
	{Ago: time.Millisecond, Member: "app-2", Client: "app", Removed: true},
}

func TestDeparturesOfADescribedGroup(t *testing.T) {
	for version, want := range map[int16][]Departure{4: nil, 5: departed, 6: departed} {
		sent, got := kmsg.NewPtrDescribeGroupsResponse(), kmsg.NewPtrDescribeGroupsResponse()
		sent.Version, got.Version = version, version
		group := kmsg.NewDescribeGroupsResponseGroup()
		PutDepartures(&group.UnknownTags, departed)
		sent.Groups = append(sent.Groups, group, kmsg.NewDescribeGroupsResponseGroup())
		if err := got.ReadFrom(sent.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		for i, want := range [][]Departure{want, nil} {
			if all, err := Departures(&got.Groups[i].UnknownTags); err != nil || !reflect.DeepEqual(all, want) {
				t.Errorf("version %d, group %d: %+v, %v", version, i, all, err)
			}
		}
	}
}

func FuzzDepartures(f *testing.F) {
	var tags kmsg.Tags
	PutDepartures(&tags, departed)
	tags.Each(func(_ uint32, value []byte) {
		f.Add(value)
		f.Add(value[:len(value)-1])
	})
	f.Fuzz(func(t *testing.T, value []byte) {
		var tags, again kmsg.Tags
		tags.Set(departuresTag, value)
		all, err := Departures(&tags)
		if err != nil {
			return
		}
		PutDepartures(&again, all)
		back, err := Departures(&again)
		if err != nil || !reflect.DeepEqual(back, all) {
			t.Errorf("%+v came back as %+v, %v", all, back, err)
		}
	})
}
