package snapshot

import configv1 "github.com/headgate/headgate/gen/headgate/config/v1"

func compileHedge(in *configv1.Hedge, f *faults) *Hedge {
	if in == nil {
		return nil
	}
	return &Hedge{
		After: duration(in.GetAfter(), 0, "forward.hedge.after", f),
		Max:   number(in.Max, DefaultHedgeMax),
	}
}

// compileMirror makes a mirror whose cluster is nil until the route is linked.
func compileMirror(in *configv1.Mirror) *Mirror {
	if in == nil {
		return nil
	}
	return &Mirror{Percent: percent(in.Percent)}
}

func compileFault(in *configv1.Fault, f *faults) *Fault {
	if in.GetDelay() == nil && in.GetAbort() == nil {
		return nil
	}
	out := &Fault{}
	if delay := in.GetDelay(); delay != nil {
		out.DelayPercent = percent(delay.Percent)
		out.Delay = duration(delay.GetDuration(), 0, "fault.delay.duration", f)
	}
	if abort := in.GetAbort(); abort != nil {
		out.AbortPercent = percent(abort.Percent)
		out.AbortStatus = orNumber(abort.GetStatus(), DefaultFaultStatus)
	}
	return out
}

// percent is an optional percentage.
func percent(p *float64) float64 {
	if p == nil {
		return DefaultPercent
	}
	return *p
}
