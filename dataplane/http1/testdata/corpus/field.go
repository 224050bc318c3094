package corpus

import "strings"

// GetField is a GET with more field lines, each with its CRLF.
func GetField(lines string) string { return start + hostH + lines + end }

var fieldCases = []Class{
	{"field lines (RFC 9112 section 5)", []Case{
		{GetField("X:\r\n"), okGet},
		{GetField("X:y\r\n"), okGet},
		{GetField("X: \t y \t \r\n"), okGet},
		{GetField("X: a\tb\xff\r\n"), okGet},
		{GetField("!#$%&'*+-.^`|~0: y\r\n"), okGet},
		{GetField("X: a: b\r\n"), okGet},
		{GetField("X : y\r\n"), "400 white space after a field name"},
		{GetField("X\t: y\r\n"), "400 white space after a field name"},
		{GetField("X y: z\r\n"), "400 white space after a field name"},
		{GetField("Content-Length : 5\r\n"), "400 white space after a field name"},
		{GetField(": y\r\n"), "400 empty field name"},
		{GetField("X\r\n"), "400 field line without a colon"},
		{GetField("X\n"), "400 field line without a colon"},
		{GetField("X(y): z\r\n"), "400 byte not allowed in a field name"},
		{GetField("X\x00: z\r\n"), "400 byte not allowed in a field name"},
		{GetField("X\xe9: z\r\n"), "400 byte not allowed in a field name"},
		{GetField("\"X\": z\r\n"), "400 byte not allowed in a field name"},
	}},
	{"folding (RFC 9112 section 5.2)", []Case{
		{GetField("X: y\r\n z\r\n"), "400 folded field line"},
		{GetField("X: y\r\n\tz\r\n"), "400 folded field line"},
		{GetField("X: y\r\n \r\n"), "400 folded field line"},
		{start + " Host: h\r\n" + end, "400 folded field line"},
		{start + "\tX: y\r\n" + hostH + end, "400 folded field line"},
	}},
	{"field values (RFC 9110 section 5.5)", []Case{
		{GetField("X: a\x00b\r\n"), "400 NUL in a field value"},
		{GetField("X: a\x01b\r\n"), "400 control byte in a field value"},
		{GetField("X: a\x0bb\r\n"), "400 control byte in a field value"},
		{GetField("X: a\x1fb\r\n"), "400 control byte in a field value"},
		{GetField("X: a\x7fb\r\n"), "400 control byte in a field value"},
		{GetField("X: 12345678\x7f\r\n"), "400 control byte in a field value"},
		{GetField("X: 1234567\x0c89\r\n"), "400 control byte in a field value"},
		{GetField("X: a\rb\r\n"), "400 CR without LF in a field value"},
		{GetField("X: a\nb: c\r\n"), "400 LF without CR in a field value"},
	}},
	{"bounds (RFC 6585 section 5)", []Case{
		{GetField(strings.Repeat("X: y\r\n", 127)), okGet},
		{GetField(strings.Repeat("X: y\r\n", 128)), "431 too many field lines"},
		{GetField(strings.Repeat("X_: y\r\n", 128)), "431 too many field lines"},
		{GetField("X: " + strings.Repeat("y", 65536-32) + "\r\n"), okGet},
		{GetField("X: " + strings.Repeat("y", 65537-32) + "\r\n"), "431 request head too large"},
		{start + hostH + "X: " + strings.Repeat("z", 65536), "431 request head too large"},
	}},
	{"Connection (RFC 9112 section 9.3)", []Case{
		{GetField("Connection: close\r\n"), okGet + " close"},
		{GetField("Connection: CLOSE\r\n"), okGet + " close"},
		{GetField("Connection: x, close ,keep-alive\r\n"), okGet + " close"},
		{GetField("Connection: x\r\nConnection: close\r\n"), okGet + " close"},
		{GetField("Connection: keep-alive\r\n"), okGet},
		{GetField("Connection: ,,\r\n"), okGet},
		{GetField("Connection: closed\r\n"), okGet},
		{GetField("Connection: Close 0\r\n"), okGet + " close"},
		{GetField("Connection: x, keep-alive\tclose\r\n"), okGet + " close"},
		{GetField("Connection: x closed\r\n"), okGet},
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET / @ none 1.0"},
		{"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "GET / @ none 1.0 close"},
	}},
	{"Upgrade (RFC 9110 section 7.8)", []Case{
		{GetField("Connection: Upgrade\r\nUpgrade: websocket\r\n"), okGet + " upgrade=websocket"},
		{GetField("Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\n"), okGet + " upgrade=websocket"},
		{GetField("Upgrade: websocket\r\n"), okGet},
		{GetField("Connection: upgrade\r\n"), okGet},
		{GetField("Connection: upgrade\r\nUpgrade:\r\n"), okGet},
		{"GET / HTTP/1.0\r\nConnection: upgrade, keep-alive\r\nUpgrade: websocket\r\n\r\n", "GET / @ none 1.0"},
	}},
	{"TE (RFC 9110 section 10.1.4)", []Case{
		{GetField("TE: trailers\r\n"), okGet + " trailers"},
		{GetField("TE: gzip;q=0.5, Trailers\r\n"), okGet + " trailers"},
		{GetField("TE: gzip\r\n"), okGet},
	}},
}
