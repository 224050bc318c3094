package message

// methodNames holds the name of each interned method.
var methodNames = [...]string{
	MethodGet: "GET", MethodHead: "HEAD", MethodPost: "POST", MethodPut: "PUT",
	MethodDelete: "DELETE", MethodConnect: "CONNECT", MethodOptions: "OPTIONS",
	MethodTrace: "TRACE", MethodPatch: "PATCH", MethodOther: "",
}

// String is the name of an interned method, or "".
func (m Method) String() string {
	if int(m) >= len(methodNames) {
		return ""
	}
	return methodNames[m]
}

// ParseMethod interns a method name. Methods are told apart by case (RFC 9110
// section 9.1): "get" is MethodOther.
func ParseMethod(name []byte) Method {
	switch string(name) {
	case "GET":
		return MethodGet
	case "HEAD":
		return MethodHead
	case "POST":
		return MethodPost
	case "PUT":
		return MethodPut
	case "DELETE":
		return MethodDelete
	case "CONNECT":
		return MethodConnect
	case "OPTIONS":
		return MethodOptions
	case "TRACE":
		return MethodTrace
	case "PATCH":
		return MethodPatch
	}
	return MethodOther
}

// Bytes is String as bytes, which must not be changed.
func (m Method) Bytes() []byte {
	if int(m) >= len(methodBytes) {
		return nil
	}
	return methodBytes[m]
}

var methodBytes = func() (table [len(methodNames)][]byte) {
	for m, name := range methodNames {
		table[m] = []byte(name)
	}
	return table
}()
