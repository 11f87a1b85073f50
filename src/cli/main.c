/*
 * main.c - the program `hearth`: finds the command and runs it
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/nearest.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    { "chat", hth_command_chat, "talk with a model in the terminal" },
    { "run", hth_command_run, "generate text from a prompt, warm when the prompt was seen before" },
    { "embed", hth_command_embed, "make embeddings of texts, or score them for a query" },
    { "bench", hth_command_bench, "measure a model on this machine, new prompts against known ones" },
    { "serve", hth_command_serve, "serve models over HTTP, with the APIs of OpenAI, Anthropic, Ollama and llama.cpp" },
    { "pull", hth_command_pull, "download a model from a hub" },
    { "models", hth_command_models, "list and remove models that were downloaded: ls, rm" },
    { "ps", hth_command_ps, "show the models of a running server, their state and memory" },
    { "key", hth_command_key, "manage the keys of a server's clients: new, hash, list, remove, expire" },
    { "worker", hth_command_worker, "serve one model on a unix socket; 'hearth serve' starts such processes" },
    { "cache", hth_command_cache,
      "look after the cache: stat, ls, why, verify, gc, rm, export, import, pin, unpin, repair" },
    { "convert", hth_command_convert, "make a GGUF file of a checkpoint in safetensors files" },
    { "kvc", hth_command_kvc, "inspect row files; compute keys: inspect, key" },
    { "version", hth_command_version, "show versions of program, engine and formats" },
};

enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *out)
{
    (void)fputs("Hearth runs large language models and never computes the same prompt twice.\n"
                "\n"
                "usage: hearth COMMAND [OPTIONS]\n"
                "\n",
                out);
    for (int i = 0; i < N_COMMANDS; i++)
        (void)fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
    (void)fputs("\n"
                "'hearth COMMAND --help' explains a command.\n"
                "\n"
                "  hearth run models/hearth-tiny.gguf --chat -p 'Tell me a story about a fox.'\n",
                out);
}

/*
 * The engine's threads meet at a barrier after every operation, about a thousand times for each token, and spin there
 * by default for up to about a millisecond. On an idle machine this is fastest. When other programs want the CPUs, each
 * barrier waits for a thread that the spinning keeps off its CPU, and generation was measured 60 times slower. A short
 * spin before sleeping costs little on an idle machine and avoids this (docs/performance.md). The engine reads the
 * variable when it is loaded.
 */
static void spin_briefly(void)
{
    if (!getenv("OMP_WAIT_POLICY") && !getenv("GOMP_SPINCOUNT"))
        (void)setenv("GOMP_SPINCOUNT", "3000", 0); /* without memory the default stays */
}

static void say_unknown(const char *name)
{
    hth_nearest nearest;

    hth_nearest_init(&nearest, name);
    for (int i = 0; i < N_COMMANDS; i++)
        hth_nearest_try(&nearest, commands[i].name);
    if (nearest.name)
        (void)fprintf(stderr, "hearth: there is no command '%s'; did you mean '%s'?\n", name, nearest.name);
    else
        (void)fprintf(stderr, "hearth: there is no command '%s'; 'hearth --help' lists them\n", name);
}

int main(int argc, char **argv)
{
    spin_briefly(); /* before any thread starts */

    /* When the reader of a pipe has gone, the write fails and is reported; the process does not end. */
    (void)signal(SIGPIPE, SIG_IGN);

    if (argc < 2) {
        print_help(stderr);
        return HTH_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return HTH_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0)
        argv[1] = "version";
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    say_unknown(argv[1]);
    return HTH_EXIT_USAGE;
}
