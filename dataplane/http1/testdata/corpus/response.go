package corpus

import "strings"

// OK is the head of a response with field lines.
func OK(lines string) string { return "HTTP/1.1 200 OK\r\n" + lines + end }

// Responses are heads of responses. A method before "|" is that of the request;
// without one it is GET. Want is status, reason phrase, length of the body and
// "close" if the connection ends with it.
var Responses = []Class{
	{"status line (RFC 9112 section 4)", []Case{
		{OK("Content-Length: 5\r\n"), "200 OK 5"},
		{"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n", "200  5"},
		{"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n", "200  5"},
		{"HTTP/1.1 299 A b\t\xe9\r\nContent-Length: 0\r\n\r\n", "299 A b\t\xe9 0"},
		{"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n", "999 x 0"},
		{"HTTP/1.1 099 x\r\n\r\n", "502 status below 100"},
		{"HTTP/1.1 d00 OK\r\n\r\n", "502 malformed status in the status line"},
		{"HTTP/1.1 20d OK\r\n\r\n", "502 malformed status in the status line"},
		{"HTTP/1.1 20 OK\r\n\r\n", "502 malformed status in the status line"},
		{"HTTP/1.1 2000 OK\r\n\r\n", "502 malformed status in the status line"},
		{"HTTP/1.1 -20 OK\r\n\r\n", "502 malformed status in the status line"},
		{"HTTP/1.1  200 OK\r\n\r\n", "502 malformed status in the status line"},
		{"HTTP/1.1\t200 OK\r\n\r\n", "502 malformed status in the status line"},
		{"HTTP/1.1 200 O\x00K\r\n\r\n", "502 control byte in the status line"},
		{"HTTP/1.1 200 OK\n\r\n", "502 control byte in the status line"},
		{"HTTP/1.1 200\n\r\n", "502 malformed status in the status line"},
		{"HTTP/1.1 200 OK\rX\r\n", "502 control byte in the status line"},
		{"HTTP/1.1 200 OK", "incomplete"},
	}},
	{"not HTTP/1 (RFC 9112 section 2.3)", []Case{
		{"hello\r\n", "502 response that does not begin with HTTP/"},
		{"<html>", "502 response that does not begin with HTTP/"},
		{"\r\nHTTP/1.1 200 OK\r\n\r\n", "502 response that does not begin with HTTP/"},
		{" HTTP/1.1 200 OK\r\n\r\n", "502 response that does not begin with HTTP/"},
		{"ICY 200 OK\r\n\r\n", "502 response that does not begin with HTTP/"},
		{"SSH-2.0-OpenSSH_9.2\r\n", "502 response that does not begin with HTTP/"},
		{"HTTP/2.0 200 OK\r\n\r\n", "502 HTTP version of the response not supported"},
		{"HTTP/0.9 200 OK\r\n\r\n", "502 HTTP version of the response not supported"},
		{"HTTP/1.2 200 OK\r\n\r\n", "502 HTTP version of the response not supported"},
		{"http/1.1 200 OK\r\n\r\n", "502 response that does not begin with HTTP/"},
		{"HTTP/ 200 OK\r\n\r\n", "502 HTTP version of the response not supported"},
	}},
	{"fields (RFC 9112 section 5)", []Case{
		{OK("X : y\r\nContent-Length: 0\r\n"), "502 white space after a field name"},
		{OK("X: y\r\n z\r\n"), "502 folded field line"},
		{OK("X: a\x00\r\n"), "502 NUL in a field value"},
		{OK("X: a\nY: b\r\n"), "502 LF without CR in a field value"},
		{OK("X_Y: z\r\nContent-Length: 0\r\n"), "200 OK 0"},
		{OK(strings.Repeat("X: y\r\n", 129)), "502 too many field lines"},
		{OK("X: " + strings.Repeat("y", 65536) + "\r\n"), "502 response head too large"},
	}},
	{"length (RFC 9112 section 6.3)", []Case{
		{OK(""), "200 OK until-close close"},
		{OK("Transfer-Encoding: chunked\r\n"), "200 OK chunked"},
		{OK("Content-Length: 5\r\nContent-Length: 5\r\n"), "200 OK 5"},
		{OK("Content-Length: 5, 5 ,05\r\n"), "200 OK 5"},
		{OK("Content-Length: 5\r\nContent-Length: 6\r\n"), "502 Content-Length values that differ"},
		{OK("Content-Length: 5, 6\r\n"), "502 Content-Length values that differ"},
		{OK("Content-Length: 5,\r\n"), "502 empty Content-Length field"},
		{OK("Content-Length:\r\n"), "502 empty Content-Length field"},
		{OK("Content-Length: -1\r\n"), "502 Content-Length that is not a number"},
		{OK("Content-Length: 9223372036854775808\r\n"), "502 Content-Length too large"},
		{OK("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), "502 both Transfer-Encoding and Content-Length"},
		{OK("Transfer-Encoding: gzip, chunked\r\n"), "502 transfer coding other than chunked"},
		{OK("Transfer-Encoding: gzip\r\n"), "502 Transfer-Encoding that is not chunked, once"},
		{OK("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), "502 more than one Transfer-Encoding field"},
		{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "502 Transfer-Encoding in HTTP/1.0"},
	}},
	{"no body (RFC 9110 section 6.4.1)", []Case{
		{"HEAD|" + OK("Content-Length: 5\r\n"), "200 OK none"},
		{"HEAD|" + OK("Transfer-Encoding: chunked\r\n"), "200 OK none"},
		{"HEAD|" + OK(""), "200 OK none"},
		{"HEAD|" + OK("Content-Length: x\r\n"), "502 Content-Length that is not a number"},
		{"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "304 Not Modified none"},
		{"HTTP/1.1 204 No Content\r\n\r\n", "204 No Content none"},
		{"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "204 No Content none"},
		{"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "204 No Content none close"},
		{"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "204 No Content none close"},
		{"HTTP/1.1 100 Continue\r\n\r\n", "100 Continue none"},
		{"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "103 Early Hints none"},
		{"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", "101 Switching Protocols none upgrade=websocket"},
		{"CONNECT|" + OK("Content-Length: 5\r\n"), "200 OK none close"},
		{"CONNECT|" + OK(""), "200 OK none"},
		{"CONNECT|HTTP/1.1 403 No\r\nContent-Length: 5\r\n\r\n", "403 No 5"},
	}},
	{"persistence (RFC 9112 section 9.3)", []Case{
		{OK("Content-Length: 5\r\nConnection: close\r\n"), "200 OK 5 close"},
		{"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", "200 OK 5 close"},
		{"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: Keep-Alive\r\n\r\n", "200 OK 5"},
		{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", "200 OK until-close close"},
	}},
}
