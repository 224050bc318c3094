package telemetry

import "strconv"

// lostOutcome is how an attempt ended that another was faster than.
const lostOutcome = "lost"

// Outcome is how the attempt ended, in a word: a reason, "lost", or its status;
// "none" if it gave no answer and nobody is to blame.
func (a *Attempt) Outcome() string {
	switch {
	case a.Reason != "":
		return a.Reason
	case a.Lost:
		return lostOutcome
	case a.Status >= 100 && a.Status < 600:
		return statusTexts[a.Status-100]
	case a.Status != 0:
		return strconv.Itoa(a.Status)
	}
	return "none"
}

// statusTexts are the usual statuses in digits.
var statusTexts = func() (list [500]string) {
	for i := range list {
		list[i] = strconv.Itoa(100 + i)
	}
	return list
}()
