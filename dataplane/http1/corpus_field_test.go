package http1

import "strings"

func getField(lines string) string { return start + hostH + lines + end }

var fieldCorpus = []exampleClass{
	{"field lines (RFC 9112 section 5)", []exampleCase{
		{getField("X:\r\n"), okGet},
		{getField("X:y\r\n"), okGet},
		{getField("X: \t y \t \r\n"), okGet},
		{getField("X: a\tb\xff\r\n"), okGet},
		{getField("!#$%&'*+-.^`|~0: y\r\n"), okGet},
		{getField("X: a: b\r\n"), okGet},
		{getField("X : y\r\n"), "400 white space after a field name"},
		{getField("X\t: y\r\n"), "400 white space after a field name"},
		{getField("X y: z\r\n"), "400 white space after a field name"},
		{getField("Content-Length : 5\r\n"), "400 white space after a field name"},
		{getField(": y\r\n"), "400 empty field name"},
		{getField("X\r\n"), "400 field line without a colon"},
		{getField("X\n"), "400 field line without a colon"},
		{getField("X(y): z\r\n"), "400 byte not allowed in a field name"},
		{getField("X\x00: z\r\n"), "400 byte not allowed in a field name"},
		{getField("X\xe9: z\r\n"), "400 byte not allowed in a field name"},
		{getField("\"X\": z\r\n"), "400 byte not allowed in a field name"},
	}},
	{"folding (RFC 9112 section 5.2)", []exampleCase{
		{getField("X: y\r\n z\r\n"), "400 folded field line"},
		{getField("X: y\r\n\tz\r\n"), "400 folded field line"},
		{getField("X: y\r\n \r\n"), "400 folded field line"},
		{start + " Host: h\r\n" + end, "400 folded field line"},
		{start + "\tX: y\r\n" + hostH + end, "400 folded field line"},
	}},
	{"field values (RFC 9110 section 5.5)", []exampleCase{
		{getField("X: a\x00b\r\n"), "400 NUL in a field value"},
		{getField("X: a\x01b\r\n"), "400 control byte in a field value"},
		{getField("X: a\x0bb\r\n"), "400 control byte in a field value"},
		{getField("X: a\x1fb\r\n"), "400 control byte in a field value"},
		{getField("X: a\x7fb\r\n"), "400 control byte in a field value"},
		{getField("X: 12345678\x7f\r\n"), "400 control byte in a field value"},
		{getField("X: 1234567\x0c89\r\n"), "400 control byte in a field value"},
		{getField("X: a\rb\r\n"), "400 CR without LF in a field value"},
		{getField("X: a\nb: c\r\n"), "400 LF without CR in a field value"},
	}},
	{"bounds (RFC 6585 section 5)", []exampleCase{
		{getField(strings.Repeat("X: y\r\n", 127)), okGet},
		{getField(strings.Repeat("X: y\r\n", 128)), "431 too many field lines"},
		{getField(strings.Repeat("X_: y\r\n", 128)), "431 too many field lines"},
		{getField("X: " + strings.Repeat("y", 65536-32) + "\r\n"), okGet},
		{getField("X: " + strings.Repeat("y", 65537-32) + "\r\n"), "431 request head too large"},
		{start + hostH + "X: " + strings.Repeat("z", 65536), "431 request head too large"},
	}},
	{"Connection (RFC 9112 section 9.3)", []exampleCase{
		{getField("Connection: close\r\n"), okGet + " close"},
		{getField("Connection: CLOSE\r\n"), okGet + " close"},
		{getField("Connection: x, close ,keep-alive\r\n"), okGet + " close"},
		{getField("Connection: x\r\nConnection: close\r\n"), okGet + " close"},
		{getField("Connection: keep-alive\r\n"), okGet},
		{getField("Connection: ,,\r\n"), okGet},
		{getField("Connection: closed\r\n"), okGet},
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET / @ none 1.0"},
		{"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "GET / @ none 1.0 close"},
	}},
	{"Upgrade (RFC 9110 section 7.8)", []exampleCase{
		{getField("Connection: Upgrade\r\nUpgrade: websocket\r\n"), okGet + " upgrade=websocket"},
		{getField("Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\n"), okGet + " upgrade=websocket"},
		{getField("Upgrade: websocket\r\n"), okGet},
		{getField("Connection: upgrade\r\n"), okGet},
		{getField("Connection: upgrade\r\nUpgrade:\r\n"), okGet},
		{"GET / HTTP/1.0\r\nConnection: upgrade, keep-alive\r\nUpgrade: websocket\r\n\r\n", "GET / @ none 1.0"},
	}},
	{"TE (RFC 9110 section 10.1.4)", []exampleCase{
		{getField("TE: trailers\r\n"), okGet + " trailers"},
		{getField("TE: gzip;q=0.5, Trailers\r\n"), okGet + " trailers"},
		{getField("TE: gzip\r\n"), okGet},
	}},
}
