package admin

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/dataplane/telemetry"
)

// The number of requests that /debug/requests answers with.
const (
	defaultLimit = 100
	maxLimit     = 10000
)

// condition is what a request must meet.
type condition func(*telemetry.Recent) bool

// conditions are the filters of /debug/requests by parameter; several mean and.
var conditions = map[string]func(value string) (condition, error){
	"route":    equal(func(r *telemetry.Recent) string { return r.Route }),
	"cluster":  equal(func(r *telemetry.Recent) string { return r.Cluster }),
	"endpoint": equal(func(r *telemetry.Recent) string { return r.Endpoint }),
	"listener": equal(func(r *telemetry.Recent) string { return r.Listener }),
	"method":   equal(func(r *telemetry.Recent) string { return r.Method }),
	"host":     equal(func(r *telemetry.Recent) string { return r.Host }),
	"reason":   equal(func(r *telemetry.Recent) string { return r.Reason }),
	"trace":    equal(func(r *telemetry.Recent) string { return r.TraceID }),
	"client":   equal(func(r *telemetry.Recent) string { return r.Client.String() }),
	"path":     pathPrefix,
	"status":   status,
	"slower":   slower,
}

var filterHelp = "filters: " + strings.Join(slices.Sorted(maps.Keys(conditions)), ", ") + ", limit"

// equal is the filter on a text.
func equal(field func(*telemetry.Recent) string) func(string) (condition, error) {
	return func(value string) (condition, error) {
		return func(r *telemetry.Recent) bool { return field(r) == value }, nil
	}
}

func pathPrefix(value string) (condition, error) {
	return func(r *telemetry.Recent) bool { return strings.HasPrefix(r.Path, value) }, nil
}

// status is one status, or a class such as 5xx.
func status(value string) (condition, error) {
	if class, ok := strings.CutSuffix(value, "xx"); ok && len(class) == 1 && '1' <= class[0] && class[0] <= '9' {
		return func(r *telemetry.Recent) bool { return r.Status/100 == int(class[0]-'0') }, nil
	}
	want, err := strconv.Atoi(value)
	if err != nil || want < 0 || want > 999 {
		return nil, errors.New("want a status such as 404, or a class such as 5xx")
	}
	return func(r *telemetry.Recent) bool { return r.Status == want }, nil
}

func slower(value string) (condition, error) {
	least, err := time.ParseDuration(value)
	if err != nil {
		return nil, errors.New("want a duration such as 250ms")
	}
	return func(r *telemetry.Recent) bool { return r.Duration >= least }, nil
}

// parseQuery reads the filters and the limit. The error names the parameter.
func parseQuery(query url.Values) (filter condition, limit int, err error) {
	limit = defaultLimit
	var all []condition
	for name, values := range query {
		if len(values) != 1 {
			return nil, 0, fmt.Errorf("%s: given %d times", name, len(values))
		}
		if name == "limit" {
			limit, err = parseLimit(values[0])
		} else {
			all, err = appendCondition(all, name, values[0])
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return func(r *telemetry.Recent) bool {
		return !slices.ContainsFunc(all, func(c condition) bool { return !c(r) })
	}, limit, nil
}

func parseLimit(value string) (int, error) {
	limit, err := strconv.Atoi(value)
	if err != nil || limit < 1 || limit > maxLimit {
		return 0, fmt.Errorf("want a number from 1 to %d", maxLimit)
	}
	return limit, nil
}

func appendCondition(all []condition, name, value string) ([]condition, error) {
	parse := conditions[name]
	if parse == nil {
		return nil, fmt.Errorf("no such filter; %s", filterHelp)
	}
	c, err := parse(value)
	return append(all, c), err
}

func (o *Options) requests(w http.ResponseWriter, req *http.Request) {
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	filter, limit, err := parseQuery(query)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	list := o.Recorder.Recent(filter, limit)
	if list == nil {
		list = []telemetry.Recent{}
	}
	writeJSON(w, list)
}
