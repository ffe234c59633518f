//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/IBM/sarama"
)

// TestC79 takes clients of years ago through the day that today's go through: what they still send is answered.
func TestC79_Java28(t *testing.T)             { matrix(t, oldJava("HAWSER_KAFKA28_LIBS")) }
func TestC79_Java39(t *testing.T)             { matrix(t, oldJava("HAWSER_KAFKA39_LIBS")) }
func TestC79_KafkaPython14(t *testing.T)      { matrix(t, oldPython()) }
func TestC79_KafkaJS116(t *testing.T)         { matrix(t, oldNode()) }
func TestC79_SaramaAsOfKafka011(t *testing.T) { matrix(t, saramaOf(sarama.V0_11_0_0)) }
func TestC79_SaramaAsOfKafka10(t *testing.T)  { matrix(t, saramaOf(sarama.V1_0_0_0)) }
func TestC79_SaramaAsOfKafka28(t *testing.T)  { matrix(t, saramaOf(sarama.V2_8_0_0)) }

// beforeZstd is the codecs of clients from before KIP-110.
var beforeZstd = []string{"none", "gzip", "snappy", "lz4"}

// oldJava runs the Java program with the client of another version, whose jars a variable names.
func oldJava(libs string) client {
	return programClient(func(t *testing.T, args ...string) *exec.Cmd {
		t.Helper()
		cmd := javaProgram(t, "Client", args...)
		for i, arg := range cmd.Args {
			if arg == "-cp" {
				cmd.Args[i+1] = classes.dir + ":" + filepath.Join(tool(t, libs), "*")
				break
			}
		}
		return cmd
	}, everyCodec)
}

func oldPython() client {
	return programClient(func(t *testing.T, args ...string) *exec.Cmd {
		t.Helper()
		cmd := pythonProgram(t, "kafka_python.py", args...)
		cmd.Path = tool(t, "HAWSER_PYTHON_OLD")
		cmd.Args[0] = cmd.Path
		return cmd
	}, beforeZstd)
}

func oldNode() client {
	return programClient(func(t *testing.T, args ...string) *exec.Cmd {
		t.Helper()
		cmd := nodeProgram("kafkajs.js")(t, args...)
		// Once its connections broke, this version ends without leaving the group: the session must run out.
		cmd.Env = append(os.Environ(), "NODE_PATH="+tool(t, "HAWSER_NODE_OLD_MODULES"), "KAFKAJS_SESSION_MS=6000")
		return cmd
	}, []string{"none", "gzip"})
}

// saramaOf is Sarama speaking as to a broker of some version.
func saramaOf(version sarama.KafkaVersion) client {
	c := saramaClientOf(version)
	if !version.IsAtLeast(sarama.V2_1_0_0) {
		c.codecs = beforeZstd
	}
	return c
}
