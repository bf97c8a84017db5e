//go:build conformance

package connect

import (
	"fmt"
	"regexp"
)

// difference is where our worker is meant to answer otherwise than Kafka's.
type difference struct {
	// at and field are patterns of the request and of what of the answer it is about.
	at, field string
	// theirs and ours are patterns of the values there; empty for any.
	theirs, ours string
	why          string
	// chance says that it need not be seen.
	chance bool
}

func (d *difference) covers(at, field string, theirs, ours any) bool {
	return matches(d.at, at) && matches(d.field, field) && matches(d.theirs, fmt.Sprint(theirs)) && matches(d.ours, fmt.Sprint(ours))
}

func matches(pattern, text string) bool {
	return pattern == "" || regexp.MustCompile(`^(?s:`+pattern+`)$`).MatchString(text)
}

// validate is a request that has a connector's configuration checked.
const validate = `PUT /connector-plugins/\S+/config/validate .*`

var differences = []difference{
	{at: `GET /`, field: `\.(version|commit)`, why: "they are programs of their own"},
	{at: `GET /connector-plugins.*`, field: `.*\.(version|version\.default_value)`, why: "plugins have versions of their own"},
	{at: `(GET|POST) /connectors.*`, field: `.*\.version`, theirs: `\d+\..*`, ours: `\d+\..*`, why: "plugins have versions of their own"},
	{at: `(POST|PUT|PATCH) /connectors.*`, field: `\.tasks(\.\d+ present| length)`, why: "the tasks may be made by the time of the answer", chance: true},
	{at: `PATCH /connectors/\S+ .*"name".*`, field: `status`, theirs: `200`, ours: `400`, why: "a connector that is configured under another's name could never be configured again"},
	{at: `(GET|PATCH) /connectors/a@.*`, field: `\.config\.name`, theirs: `b`, why: "as Kafka has taken the other's name"},
	{at: `(GET|PATCH) /connectors/out@.*`, field: `\.config\.name`, theirs: `other`, why: "as Kafka has taken the other's name"},
	{at: `(PATCH|GET) /connectors/out@/offsets.*`, field: `(status|\.offsets\.map\[kafka_partition:-1 .* present)`, theirs: `200|true`, ours: `400|false`, why: "no topic has such a partition"},
	{at: validate + `"producer\.override\.acks":"2".*`, field: `.*(errors|error_count) given`, theirs: `false`, ours: `true`, why: "no producer takes that, so that its tasks would fail"},
	{at: `PUT /admin/loggers/root .*`, field: `( length|\.\d+)`, why: "a JVM has loggers of its own classes"},
	{at: validate, field: `.*\.topic\.creation\..* present`, theirs: `false`, ours: `true`, why: "the keys of topics' creation are checked and shown with the others"},
	{at: validate + `"topic\.creation.*`, field: `\.(groups length|groups\.\d+|error_count given)`, why: "the keys of topics' creation are checked and shown with the others"},
	{at: validate + `"batch\.size":"0".*`, field: `.*(errors|error_count) given`, theirs: `false`, ours: `true`, why: "a batch of nothing is refused"},
	{at: validate, field: `.*\.plugin\.version\.(definition\.default_value|value\.recommended_values\.0|value\.value)`, why: "plugins have versions of their own"},
	{at: `GET /connector-plugins(\?.*)?`, field: `\..* present`, theirs: `false`, ours: `true`, why: "Cauce has plugins that Kafka has not"},
	{at: validate, field: `.*\.recommended_values length`, why: "Cauce has plugins that Kafka has not"},
	{at: `(POST|PUT|PATCH) .*`, field: `(status|\.error_code)`, theirs: `500`, ours: `400`, why: "a body that is wrong is the client's fault, not the worker's"},
	{field: `content type`, theirs: ``, ours: `application/json`, why: "Kafka leaves the type of its own refusals out where there is no such path or method"},
	{at: `OPTIONS .*`, field: `body`, why: "the methods are in another order"},
	{at: validate, field: `.*\.file\.value\.errors given`, theirs: `false`, ours: `true`, why: "a plugin has neither stdin nor stdout to use in place of a file"},
	{at: `(GET|PUT) /connector-plugins/.*`, field: `(.*\.)?file\.(definition\.)?required`, theirs: `false`, ours: `true`, why: "a plugin has neither stdin nor stdout to use in place of a file"},
	{at: `(GET|PUT) /connector-plugins/.*`, field: `.*\.converter\.type present`, theirs: `true`, ours: `false`, why: "what a converter is for is not configured, but told by the worker"},
	{at: validate, field: `.*\.value\.value`, theirs: `<nil>`, why: "a value that is refused is shown"},
	{at: validate, field: `.*\.configs\.(producer|consumer)\.override\..*\.definition`, ours: `<nil>`, why: "properties of clients are not described one by one"},
}
