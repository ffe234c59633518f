package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// answerMax bounds what the browser says at once, in bytes: a picture in base64.
const answerMax = 64 << 20

// page is a headless Chromium that shows one page. It is spoken to over a pipe, so that no port is opened.
type page struct {
	cmd     *exec.Cmd
	out     *os.File
	in      *bufio.Reader
	session string
	n       int
	profile string
}

// openPage shows a page of a size in pixels.
func openPage(ctx context.Context, url string, width, height int) (*page, error) {
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "hawser-chromium-")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
		"--user-data-dir="+profile, fmt.Sprintf("--window-size=%d,%d", width, height), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start chromium (Debian's package of that name): %w", err)
	}
	theirIn.Close()
	theirOut.Close()
	p := &page{cmd: cmd, out: ourOut, in: bufio.NewReaderSize(ourIn, 1<<16), profile: profile}
	if err := p.open(url, width, height); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *page) open(url string, width, height int) error {
	var made struct {
		TargetID string `json:"targetId"`
	}
	if err := p.call("Target.createTarget", map[string]any{"url": "about:blank"}, &made); err != nil {
		return err
	}
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	if err := p.call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	p.session = attached.SessionID
	size := map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}
	if err := p.call("Emulation.setDeviceMetricsOverride", size, nil); err != nil {
		return err
	}
	return p.call("Page.navigate", map[string]any{"url": url}, nil)
}

// call sends a command and waits for its answer; events on the way are passed over.
func (p *page) call(method string, params map[string]any, out any) error {
	p.n++
	message := map[string]any{"id": p.n, "method": method, "params": params}
	if p.session != "" {
		message["sessionId"] = p.session
	}
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if _, err := p.out.Write(append(raw, 0)); err != nil {
		return fmt.Errorf("tell chromium %s: %w", method, err)
	}
	for {
		raw, err := p.in.ReadBytes(0)
		if err != nil || len(raw) > answerMax {
			return fmt.Errorf("hear what chromium says to %s: %w", method, errors.Join(err, p.cmd.Err))
		}
		var answer struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal(raw[:len(raw)-1], &answer); err != nil {
			return fmt.Errorf("read what chromium says to %s: %w", method, err)
		}
		switch {
		case answer.ID != p.n:
			continue
		case answer.Error != nil:
			return fmt.Errorf("chromium refuses %s: %s", method, answer.Error.Message)
		case out == nil:
			return nil
		}
		return json.Unmarshal(answer.Result, out)
	}
}

// run evaluates a script in the page.
func (p *page) run(script string) error {
	return p.call("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true}, nil)
}

// picture writes the page as PNG, at most height pixels of it.
func (p *page) picture(file string, width, height int) error {
	clip := map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
	var shot struct {
		Data string `json:"data"`
	}
	if err := p.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": clip}, &shot); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		return fmt.Errorf("decode the picture: %w", err)
	}
	return os.WriteFile(file, raw, 0o644)
}

func (p *page) close() {
	_ = p.call("Browser.close", map[string]any{}, nil)
	p.out.Close()
	ended := make(chan struct{})
	go func() {
		_ = p.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-ended
	}
	_ = os.RemoveAll(p.profile)
}
