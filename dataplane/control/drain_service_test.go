package control

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controlv1 "github.com/headgate/headgate/gen/headgate/control/v1"
)

// fakeDrainer has the endpoints 1 and 2 in cluster c, and remembers what was
// asked of it. It is used by one call at a time.
type fakeDrainer struct{ done []string }

func (d *fakeDrainer) MayDrain(cluster, endpoint string, allowLast bool) error {
	switch {
	case d.Endpoint(cluster, endpoint) == nil:
		return NoEndpoint(cluster, endpoint)
	case endpoint == "2" && !allowLast:
		return LastEndpoint(cluster, endpoint)
	}
	return nil
}

func (d *fakeDrainer) Drain(v Drained) { d.done = append(d.done, "drain "+v.Endpoint+" "+v.Writer) }

func (d *fakeDrainer) Undrain(_, endpoint, writer, _ string) {
	d.done = append(d.done, "undrain "+endpoint+" "+writer)
}

func (d *fakeDrainer) Endpoint(cluster, endpoint string) *controlv1.EndpointStatus {
	if cluster == "c" && (endpoint == "1" || endpoint == "2") {
		return &controlv1.EndpointStatus{Address: endpoint}
	}
	return nil
}

func TestDrainService(t *testing.T) {
	d := &fakeDrainer{}
	r := newRig(t, func(o *Options) { o.Drainer = d })
	client := controlv1.NewDrainServiceClient(r.conn)
	drain := func(endpoint string, last bool) (unchanged bool, err error) {
		m, err := client.Drain(t.Context(), &controlv1.DrainRequest{Cluster: "c", Endpoint: endpoint, Writer: "mia", Reason: "why", AllowLast: last})
		return m.GetUnchanged(), err
	}
	undrain := func(endpoint string) (unchanged bool, err error) {
		m, err := client.Undrain(t.Context(), &controlv1.UndrainRequest{Cluster: "c", Endpoint: endpoint, Writer: "tom"})
		return m.GetUnchanged(), err
	}
	expect := func(what string, unchanged bool, err error, wantUnchanged bool, code codes.Code) {
		t.Helper()
		if unchanged != wantUnchanged || status.Code(err) != code {
			t.Errorf("%s: unchanged %v, %v; want %v, %v", what, unchanged, err, wantUnchanged, code)
		}
	}
	unchanged, err := drain("1", false)
	expect("drain", unchanged, err, false, codes.OK)
	unchanged, err = drain("1", false)
	expect("drain again", unchanged, err, true, codes.OK)
	_, err = drain("2", false)
	expect("drain the last", false, err, false, codes.FailedPrecondition)
	_, err = drain("3", true)
	expect("drain nobody", false, err, false, codes.NotFound)
	_, err = drain("", true)
	expect("drain without a name", false, err, false, codes.InvalidArgument)
	if list := r.applier.Store().Drained(); len(list) != 1 || list[0].Endpoint != "1" || list[0].Reason != "why" || list[0].Since.IsZero() {
		t.Errorf("stored: %+v", list)
	}
	unchanged, err = undrain("2")
	expect("undrain what is not drained", unchanged, err, true, codes.OK)
	_, err = undrain("3")
	expect("undrain nobody", false, err, false, codes.NotFound)
	unchanged, err = undrain("1")
	expect("undrain", unchanged, err, false, codes.OK)
	if list := r.applier.Store().Drained(); len(list) != 0 {
		t.Errorf("stored: %+v", list)
	}
	if want := []string{"drain 1 mia", "undrain 1 tom"}; !slices.Equal(d.done, want) {
		t.Errorf("done: %q, want %q", d.done, want)
	}
}

// TestDrainedCrash ends the process at every operation of storing a list: a
// restart finds the old one whole or the new one whole, and the new one if
// SetDrained had returned.
func TestDrainedCrash(t *testing.T) {
	before, after := []Drained{{Cluster: "c", Endpoint: "1"}}, []Drained{{Cluster: "c", Endpoint: "2"}}
	for failAt := 0; ; failAt++ {
		d := newCrashDisk()
		s := mustStore(t, d)
		if err := s.SetDrained(before); err != nil {
			t.Fatal(err)
		}
		d.ops, d.trace, d.failAt, d.crash = 0, nil, failAt, true
		err := s.SetDrained(after)
		for name, left := range d.survivors() {
			got := mustStore(t, left).Drained()
			if !slices.Equal(got, after) && (!slices.Equal(got, before) || err == nil) {
				t.Errorf("crash in %q, %s: %+v after a restart (SetDrained said %v)", d.trace[len(d.trace)-1], name, got, err)
			}
		}
		if !d.crashed() {
			break
		}
	}
}

// What cannot be stored is not done.
func TestDrainIsStoredFirst(t *testing.T) {
	disk := newCrashDisk()
	d := &fakeDrainer{}
	service := &drainService{drainer: d, store: mustStore(t, disk)}
	disk.failAt = disk.ops // what comes next
	_, err := service.Drain(t.Context(), &controlv1.DrainRequest{Cluster: "c", Endpoint: "1"})
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Reason != ReasonStore {
		t.Errorf("error %v", err)
	}
	if len(d.done) != 0 || len(service.store.Drained()) != 0 {
		t.Errorf("done: %q, stored: %+v", d.done, service.store.Drained())
	}
}

// A list that is damaged is said, and hinders nothing.
func TestDrainedIsCorrupt(t *testing.T) {
	disk := newCrashDisk()
	if err := mustStore(t, disk).SetDrained([]Drained{{Cluster: "c", Endpoint: "1"}}); err != nil {
		t.Fatal(err)
	}
	data := disk.names[drainedName].data
	data[len(data)-1] ^= 1
	s := mustStore(t, disk)
	if faults := s.Faults(); len(faults) != 1 || faults[0].File != drainedName || len(s.Drained()) != 0 {
		t.Errorf("faults %v, drained %+v", faults, s.Drained())
	}
}
