package cluster

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// deleteTopics decides DeleteTopics, key 20, versions 1 to 6: by name, and by id
// since version 6 (KIP-516). The configs of a topic go with it.
func deleteTopics(im *metadata.Image, env Env, req *kmsg.DeleteTopicsRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	wanted := req.Topics
	for _, name := range req.TopicNames {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		wanted = append(wanted, t)
	}
	d := newTopicDeleter(im, wanted)
	enabled := env.Static.Bool("delete.topic.enable")
	for _, t := range wanted {
		if !enabled {
			resp.Topics = append(resp.Topics, deletionDisabled(req.Version, t))
		} else if res, ok := d.delete(t); ok {
			resp.Topics = append(resp.Topics, res)
		}
	}
	return Outcome{Response: resp, Records: d.records}
}

func deletionDisabled(version int16, t kmsg.DeleteTopicsRequestTopic) kmsg.DeleteTopicsResponseTopic {
	if version < 3 {
		return deleteResult(t, refuse(kerr.InvalidRequest, "Topic deletion is disabled."))
	}
	return deleteResult(t, kerr.TopicDeletionDisabled)
}

func deleteResult(t kmsg.DeleteTopicsRequestTopic, err error) kmsg.DeleteTopicsResponseTopic {
	res := kmsg.NewDeleteTopicsResponseTopic()
	res.Topic, res.TopicID = t.Topic, t.TopicID
	res.ErrorCode, res.ErrorMessage = answer(err)
	return res
}

// topicDeleter counts what one request asks for; -1 is what it asked for more
// than once and has its answer.
type topicDeleter struct {
	im      *metadata.Image
	names   map[string]int
	ids     map[metadata.TopicID]int
	records []*metadatapb.Record
}

func newTopicDeleter(im *metadata.Image, wanted []kmsg.DeleteTopicsRequestTopic) *topicDeleter {
	d := &topicDeleter{im: im, names: map[string]int{}, ids: map[metadata.TopicID]int{}}
	for _, t := range wanted {
		switch {
		case t.Topic == nil:
			d.ids[t.TopicID]++
		case t.TopicID == metadata.TopicID{}:
			d.names[*t.Topic]++
		}
	}
	return d
}

// delete decides on one topic; false when it was answered already.
func (d *topicDeleter) delete(t kmsg.DeleteTopicsRequestTopic) (kmsg.DeleteTopicsResponseTopic, bool) {
	none := metadata.TopicID{}
	switch {
	case t.Topic != nil && t.TopicID != none:
		return deleteResult(t, refuse(kerr.InvalidRequest, "You may not specify both topic name and topic id.")), true
	case t.Topic == nil && t.TopicID == none:
		return deleteResult(t, refuse(kerr.InvalidRequest, "Neither topic name nor id were specified.")), true
	case t.Topic == nil:
		return d.deleteByID(t)
	}
	return d.deleteByName(t)
}

func (d *topicDeleter) deleteByID(t kmsg.DeleteTopicsRequestTopic) (kmsg.DeleteTopicsResponseTopic, bool) {
	switch n := d.ids[t.TopicID]; {
	case n < 0: // answered as a duplicate
		return kmsg.DeleteTopicsResponseTopic{}, false
	case n > 1:
		d.ids[t.TopicID] = -1
		return deleteResult(t, refuse(kerr.InvalidRequest, "Duplicate topic id.")), true
	}
	topic, ok := d.im.TopicByID(t.TopicID)
	if !ok {
		return deleteResult(t, refuse(kerr.UnknownTopicID, "%s", kerr.UnknownTopicID.Description)), true
	}
	t.Topic = &topic.Name
	if d.names[topic.Name] == 1 {
		return kmsg.DeleteTopicsResponseTopic{}, false // the name has the answer
	}
	return d.remove(t), true
}

func (d *topicDeleter) deleteByName(t kmsg.DeleteTopicsRequestTopic) (kmsg.DeleteTopicsResponseTopic, bool) {
	switch n := d.names[*t.Topic]; {
	case n < 0: // answered as a duplicate
		return kmsg.DeleteTopicsResponseTopic{}, false
	case n > 1:
		d.names[*t.Topic] = -1
		return deleteResult(t, refuse(kerr.InvalidRequest, "Duplicate topic name.")), true
	}
	topic, ok := d.im.Topic(*t.Topic)
	if !ok {
		return deleteResult(t, refuse(kerr.UnknownTopicOrPartition, "%s", kerr.UnknownTopicOrPartition.Description)), true
	}
	t.TopicID = topic.ID
	if d.ids[topic.ID] != 0 {
		return deleteResult(t, refuse(kerr.InvalidRequest,
			"The provided topic name maps to an ID that was already supplied.")), true
	}
	return d.remove(t), true
}

func (d *topicDeleter) remove(t kmsg.DeleteTopicsRequestTopic) kmsg.DeleteTopicsResponseTopic {
	if err := checkRecordLimit(len(d.records) + 1); err != nil {
		return deleteResult(t, err)
	}
	d.records = append(d.records, removeTopicRecord(t.TopicID))
	return deleteResult(t, nil)
}
