package http1

import (
	"strings"
	"testing"
)

func TestForeign(t *testing.T) {
	for in, want := range map[string]string{
		"INVALID CONNECTION PREFACE\r\n\r\n":           "foreign",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": "foreign", // the beginning of a handshake of TLS
		"\x05\x01\x00":                            "foreign", // SOCKS
		"\x80\x2e\x01":                            "foreign",
		"a1 LOGIN user secret\r\n":                "foreign",
		strings.Repeat("a", maxForeignLine) + ";": "foreign",

		"SSH-2.0-OpenSSH_9.6\r\n":              "request",
		"EHLO mail.example.com\r\n":            "request",
		"*1\r\n$4\r\nPING\r\n":                 "request",
		"hello world\r\n":                      "request",
		"HELLO\r\n\r\n":                        "request",
		"GET\n":                                "request",
		"connect h:80\r\n":                     "request",
		"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n": "request",
		"GET \n":                               "request",
		"GET index.html\r\n":                   "request",
		"OPTIONS ** x\r\n":                     "request",
		"GET /\r\n":                            "request",
		"GET / \r\n":                           "request",
		"G\x01T / HTTP/1.1\r\n":                "request",
		"\x00GET / HTTP/1.1\r\n":               "request",
		" GET / HTTP/1.1\r\n":                  "request",
		"GET\t/\tx\r\n":                        "request",
		"GET x HTTP/9\r\n":                     "request",
		"GET x http/1.1\r\n":                   "request",
		"HTTP/1.1 200 OK\r\n":                  "request",
		"(GET *\r\n":                           "request",
		"GET ftp://h/ x\r\n":                   "request",
		"CONNECT h:80\r\n":                     "request",
		"GET /" + strings.Repeat("a", 9<<10):   "request",
		"\r\nGET /\r\n":                        "request",
		"\n":                                   "request",
		"\r\n\r\n\r\n\r\n\r\n":                 "request",

		"":                                  "unknown",
		"\r\n":                              "unknown",
		"G(T":                               "unknown",
		"G(T HTT":                           "unknown",
		"INVALID CONNECTION PREF":           "unknown",
		strings.Repeat("a", maxForeignLine): "unknown",
	} {
		foreign, known := Foreign([]byte(in))
		got := map[[2]bool]string{{true, true}: "foreign", {false, true}: "request", {false, false}: "unknown"}[[2]bool{foreign, known}]
		if got != want {
			t.Errorf("%.60q: %s, want %s", in, got, want)
		}
	}
}
