package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func ask(t *testing.T, h http.Handler, method, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody))
	return w
}

func TestItSaysItsNameAndWhatItWasAsked(t *testing.T) {
	w := ask(t, newHandler("red"), http.MethodPost, "/a/b?c=d")
	if got, want := w.Body.String(), "red POST /a/b?c=d\n"; got != want {
		t.Errorf("body is %q, want %q", got, want)
	}
}

func TestHealthIsWhatItWasLastTold(t *testing.T) {
	h := newHandler("red")
	for _, step := range []struct {
		method, target string
		status         int
	}{
		{http.MethodGet, "/healthz", http.StatusOK},
		{http.MethodPut, "/healthz?status=503", http.StatusNoContent},
		{http.MethodGet, "/healthz", http.StatusServiceUnavailable},
		{http.MethodPut, "/healthz?status=99", http.StatusBadRequest},
		{http.MethodPut, "/healthz", http.StatusBadRequest},
		{http.MethodGet, "/healthz", http.StatusServiceUnavailable},
		{http.MethodPut, "/healthz?status=200", http.StatusNoContent},
		{http.MethodGet, "/healthz", http.StatusOK},
	} {
		if w := ask(t, h, step.method, step.target); w.Code != step.status {
			t.Errorf("%s %s: status %d, want %d", step.method, step.target, w.Code, step.status)
		}
	}
}
