package proxy_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// TestAnswerDate passes answers on, of which some have no Date, from every wire to
// every wire (RFC 9110 section 6.6.1).
func TestAnswerDate(t *testing.T) {
	const theirs = "Tue, 15 Nov 1994 08:12:31 GMT"
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = r.Header["X-Date"]
		status, _ := strconv.Atoi(r.Header.Get("X-Status"))
		w.WriteHeader(status)
	})
	for _, w := range []struct{ client, upstream string }{
		{"HTTP/1", "HTTP/1"}, {"HTTP/1", "HTTP/2"}, {"HTTP/2", "HTTP/1"}, {"HTTP/2", "HTTP/2"}, {"HTTP/3", "HTTP/1"}, {"HTTP/3", "HTTP/2"},
	} {
		t.Run(w.client+" to "+w.upstream, func(t *testing.T) {
			kind := map[string]string{"HTTP/2": ", http2: {}"}[w.upstream]
			v := visitOver(t, w.client, start(t, manifest(
				"clusters: [{name: main, endpoints: [{address: '"+serveOver(t, w.upstream, upstream)+"'}]"+kind+"}]",
				"routes:",
				"- {name: bare, matches: [{path: {exact: /bare}}], forward: {backends: [{cluster: main}]}, responseHeaders: {remove: [date]}}",
				"- {name: set, matches: [{path: {exact: /set}}], forward: {backends: [{cluster: main}]}, responseHeaders: {set: [{name: date, value: ours}]}}",
				"- {name: all, forward: {backends: [{cluster: main}]}}",
			)))
			for _, c := range []struct {
				method, path, status, date string
				want                       string // "now": the present
			}{
				{"GET", "/", "200", "", "now"},
				{"HEAD", "/", "200", "", "now"},
				{"GET", "/", "204", "", "now"},
				{"GET", "/", "304", "", "now"},
				{"GET", "/", "503", "", "now"},
				{"GET", "/", "200", theirs, theirs},
				{"GET", "/", "200", "no date", "no date"},
				{"GET", "/bare", "200", "", ""},
				{"GET", "/bare", "200", theirs, ""},
				{"GET", "/set", "200", "", "ours"},
			} {
				header := []string{"X-Status", c.status}
				if c.date != "" {
					header = append(header, "X-Date", c.date)
				}
				before := time.Now().Truncate(time.Second)
				got := dateOf(t, v, c.method, c.path, header)
				if c.want == "now" && len(got) == 1 {
					if at, err := http.ParseTime(got[0]); err != nil || at.Before(before.Add(-time.Second)) || at.After(time.Now()) {
						t.Errorf("%+v: %q, at %v", c, got, before)
					}
					continue
				}
				if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || got[0] != c.want) {
					t.Errorf("%+v: %q", c, got)
				}
			}
		})
	}
}

// dateOf is the Date of the answer to a request with fields, given as names and
// values.
func dateOf(t *testing.T, v *visitor, method, path string, fields []string) []string {
	t.Helper()
	req, err := http.NewRequest(method, v.base+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := v.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.Header.Values("Date")
}
