package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
)

// passwordMax bounds a password that is read, in bytes.
const passwordMax = 4 << 10

func (a *app) user() *cobra.Command {
	return a.group("user", "Users that log in by SCRAM", a.userList(), a.userSet(), a.userDelete())
}

type userRow struct {
	Name       string `human:"User" json:"user_name"`
	Mechanism  string `human:"Mechanism" json:"mechanism"`
	Iterations int32  `human:"Iterations" json:"iterations"`
}

func userRows(u api.User) []userRow {
	var rows []userRow
	for _, c := range u.Credentials {
		rows = append(rows, userRow{u.UserName, c.Mechanism, c.Iterations})
	}
	return rows
}

func (a *app) userList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the users and how each may log in", Args: noArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		users, err := c.Users(cmd.Context())
		if err != nil {
			return err
		}
		var rows []userRow
		for _, u := range users {
			rows = append(rows, userRows(u)...)
		}
		return printRows(a, rows)
	}
	return cmd
}

func (a *app) userSet() *cobra.Command {
	var mechanisms []string
	var iterations int32
	cmd := &cobra.Command{Use: "add <user>", Aliases: []string{"create", "update"},
		Short: "Make a user, or give one another password, which is read from the standard input", Args: exactArgs("<user>"),
		Example: "  hawser user add alice < password-file\n  hawser user add alice --mechanism SCRAM-SHA-512 --iterations 16384"}
	flags := cmd.Flags()
	flags.StringSliceVar(&mechanisms, "mechanism", nil, "`SCRAM-SHA-256,SCRAM-SHA-512` (default: both)")
	flags.Int32Var(&iterations, "iterations", 0, "how often the password is hashed, 4096 to 16384 (default: the broker's)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		password, err := a.readPassword(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		rq := api.SetUserRequest{UserName: args[0], Password: password, Mechanisms: mechanisms}
		if iterations != 0 {
			rq.Iterations = &iterations
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		u, err := c.SetUser(cmd.Context(), rq)
		if err != nil {
			return err
		}
		return printRows(a, userRows(u))
	}
	return cmd
}

// readPassword reads one line: a flag would show it to everybody on the machine. A person is asked, and does not see it.
func (a *app) readPassword(ctx context.Context, user string) (string, error) {
	if file, is := a.in().(*os.File); is && isTerminal(file) {
		fmt.Fprintf(a.err, "Password of %s: ", clean(user))
		defer fmt.Fprintln(a.err)
		defer withoutEcho(file)()
	}
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	go func() { // it ends with the process where nobody types
		line, err := bufio.NewReader(io.LimitReader(a.in(), passwordMax)).ReadString('\n')
		read <- answer{line, err}
	}()
	var got answer
	select {
	case <-ctx.Done():
		return "", errors.New("interrupted: nothing was changed")
	case got = <-read:
	}
	if got.err != nil && !errors.Is(got.err, io.EOF) {
		return "", fmt.Errorf("read the password: %w", got.err)
	}
	line := strings.TrimRight(got.line, "\r\n")
	if line == "" {
		return "", errors.New("there is no password on the standard input")
	}
	return line, nil
}

func (a *app) userDelete() *cobra.Command {
	var mechanism string
	cmd := &cobra.Command{Use: "delete <user>", Short: "Take a user's credentials away", Args: exactArgs("<user>")}
	cmd.Flags().StringVar(&mechanism, "mechanism", "", "only those of `SCRAM-SHA-256` or SCRAM-SHA-512")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		if err := c.DeleteUser(cmd.Context(), args[0], mechanism); err != nil {
			return err
		}
		return a.say("Deleted the credentials of \"%s\".", args[0])
	}
	return cmd
}
