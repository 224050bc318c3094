package examples_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

func TestServices(t *testing.T) {
	need(t, "nginx", "curl")
	r := follow(t, "services")
	t.Run("upload", func(t *testing.T) { uploadInPieces(t, r) })
	t.Run("websocket", func(t *testing.T) { talkOverWebsocket(t, r) })
}

// uploadInPieces writes a piece of an upload only when the one before has come
// back from the backend. Anything on the way that waits for more than it has
// makes this hang. curl cannot do this: it reads its input or the answer, never
// both at once.
func uploadInPieces(t *testing.T, r *tour) {
	body, upload := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.here("http://127.0.0.1:8080/files/echo?n=1"), body)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "api.example.com"
	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	go upload.Write([]byte("begin")) // the head of the answer comes with the first piece
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	expect(t, response.Body, []byte("begin"))
	for i, size := range []int{1, 100, 1 << 10, 1 << 16, 1 << 20, 3} {
		piece := bytes.Repeat([]byte{'a' + byte(i)}, size)
		go upload.Write(piece)
		expect(t, response.Body, piece)
	}
	upload.Close()
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Errorf("behind the last piece came %q, %v", rest, err)
	}
}

// expect reads what must come.
func expect(t *testing.T, r io.Reader, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d of %d bytes came, %v, and they are the ones expected: %v", n, len(want), err, bytes.Equal(got, want))
	}
}

// talkOverWebsocket switches to a websocket and has frames of every kind of
// length said back; a snapshot that is applied meanwhile changes nothing.
func talkOverWebsocket(t *testing.T, r *tour) {
	conn, err := net.Dial("tcp", r.at("127.0.0.1:8080"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	// The first frame goes out with the handshake, before the answer to it.
	first := clientFrame(0x1, []byte("hello"))
	fmt.Fprintf(conn, "GET /chat/websocket HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n%s", first)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("%s, Sec-WebSocket-Accept %q", response.Status, response.Header.Get("Sec-WebSocket-Accept"))
	}
	expectFrame(t, reader, 0x1, []byte("hello"))

	r.write("examples/services/routes.yaml", string(mustRead(t, "services/routes.yaml"))+
		"  - {name: ping, matches: [{path: {exact: /ping}}], respond: {status: 200}}\n")
	r.must("ctl apply examples/services/routes.yaml")
	for _, size := range []int{0, 125, 126, 1 << 15, 1 << 16, 1 << 20} {
		message := bytes.Repeat([]byte{byte(size >> 3), 0x00, 0xff}, size/3+1)[:size]
		go conn.Write(clientFrame(0x2, message))
		expectFrame(t, reader, 0x2, message)
	}
	if _, err := conn.Write(clientFrame(0x8, []byte{0x03, 0xe8})); err != nil {
		t.Fatal(err)
	}
	expectFrame(t, reader, 0x8, []byte{0x03, 0xe8})
	if n, err := reader.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("behind the close came %d bytes, %v", n, err)
	}
}

// clientFrame is a whole message in one masked frame (RFC 6455 section 5.2).
func clientFrame(opcode byte, payload []byte) []byte {
	mask := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	frame := []byte{0x80 | opcode}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, 0x80|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(n))
	}
	frame = append(frame, mask[:]...)
	for i, b := range payload {
		frame = append(frame, b^mask[i%4])
	}
	return frame
}

// expectFrame reads a frame of a server, which is the client's without a mask.
func expectFrame(t *testing.T, r io.Reader, opcode byte, payload []byte) {
	t.Helper()
	masked := clientFrame(opcode, payload)
	head := masked[:len(masked)-len(payload)-4]
	want := append(append([]byte{}, head...), payload...)
	want[1] &^= 0x80
	expect(t, r, want)
}
