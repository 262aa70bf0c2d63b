/* cmd_completion.c - vcompress completion: scripts for bash, zsh and fish, from the tables of options. A script
 * completes commands, options, the words that an option takes ("--overflow error|inf|sat"), and file names.
 *
 * Nothing is written by hand for a command or an option: a new row of a table is completed after the next installation.
 *
 * The scripts of the shells differ in who divides the line: bash gives words (put_bash has a case over commands and
 * options), zsh's _arguments takes a specification for each option, fish a `complete` line for each. */
#include <string.h>

#include "tools/app.h"
#include "tools/commands/commands.h"

/* In single quotes for the shell: ' becomes '\''. */
static void put_quoted(FILE *to, const char *s)
{
    fputc('\'', to);
    for (; *s != '\0'; s++) {
        if (*s == '\'') {
            fputs("'\\''", to);
        } else {
            fputc(*s, to);
        }
    }
    fputc('\'', to);
}

/* The value is the name of a file or a folder. */
static bool wants_file(const struct opt *opt)
{
    return options_value(opt) != NULL &&
           (strcmp(options_value(opt), "FILE") == 0 || strcmp(options_value(opt), "DIR") == 0);
}

/* ---- names of GPUs ---- */

static struct vc_gpus *catalogue; /* while a script is printed, and its context */
static struct vc_ctx *gpu_ctx;

/* The value is the name of a GPU. */
static bool wants_gpu(const struct opt *opt)
{
    return strcmp(opt->name, "gpu") == 0 || strcmp(opt->name, "fit") == 0 || strcmp(opt->name, "target-gpu") == 0 ||
           strcmp(opt->name, "must-fit") == 0;
}

/* "RTX-4090" for GeForce RTX 4090: shells divide words at spaces. False where the catalogue would not find the short
 * name, or would find another GPU. */
static bool short_name(const struct vc_gpu *gpu, char *to, size_t room)
{
    static const char *const makes[] = {"GeForce ", "Tesla ", "AMD "};
    const char *name = gpu->name;
    const struct vc_gpu *found = NULL;
    unsigned count = 1;
    size_t n = 0;

    for (size_t k = 0; k < sizeof makes / sizeof makes[0]; k++) {
        name += strncmp(name, makes[k], strlen(makes[k])) == 0 ? strlen(makes[k]) : 0;
    }
    for (; *name != '\0' && n + 1 < room; name++) {
        bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || (*name >= '0' && *name <= '9');

        if (plain || (n != 0 && to[n - 1] != '-')) {
            to[n++] = plain ? *name : '-';
        }
    }
    n -= n != 0 && to[n - 1] == '-';
    to[n] = '\0';
    return vc_gpus_find(gpu_ctx, catalogue, to, &found, &count) == VC_OK && found == gpu;
}

/* All GPUs of the catalogue, without instances of clouds. */
static void put_gpus(FILE *to)
{
    char name[80];

    for (size_t k = 0; k < vc_gpus_count(catalogue); k++) {
        if (vc_gpu(catalogue, k)->of == NULL && short_name(vc_gpu(catalogue, k), name, sizeof name)) {
            fprintf(to, " %s", name);
        }
    }
}

/* ---- names of schemes ---- */

/* What completes a value that is the name of a scheme: GGUF's types for --gguf, names of quantize for --scheme and
 * --fake-quant, of estimate for --dtype. NULL behind the last, and for other options. */
static const char *suggestion(const struct opt *opt, size_t index)
{
    struct vc_quantize_scheme scheme;

    if (strcmp(opt->name, "gguf") == 0) {
        return vc_name_at(VC_NAMES_MIXTURES, index);
    }
    if (strcmp(opt->name, "scheme") == 0 || strcmp(opt->name, "fake-quant") == 0) {
        return vc_quantize_scheme_at(index, &scheme) ? scheme.name : NULL;
    }
    if (strcmp(opt->name, "dtype") == 0 && strcmp(opt->value, "TYPE") == 0) {
        return vc_weight_scheme_name(index);
    }
    return NULL;
}

/* " Q4_0 Q4_1 ...": names as they stand, without those that need a number ("int4-gN"). */
static void put_suggestions(FILE *to, const struct opt *opt)
{
    for (size_t i = 0; suggestion(opt, i) != NULL; i++) {
        if (strchr(suggestion(opt, i), 'N') == NULL || strstr(suggestion(opt, i), "-gN") == NULL) {
            fprintf(to, " %s", suggestion(opt, i));
        }
    }
}

/* ---- words ---- */

/* For options_each_word. */
static void put_word(FILE *to, const char *word, size_t n)
{
    fprintf(to, " %.*s", (int)n, word);
}

/* Calls fn for every option of the command. */
static void each_option(FILE *to, const struct command *command, void (*fn)(FILE *to, const struct opt *opt))
{
    for (size_t g = 0; g < command->n_groups; g++) {
        for (size_t i = 0; i < command->groups[g]->n_opts; i++) {
            fn(to, &command->groups[g]->opts[i]);
        }
    }
}

/* With a blank before each, as all three shells take them. */
static void put_command_names(FILE *to)
{
    for (size_t i = 0; i < n_commands; i++) {
        fprintf(to, " %s", commands[i]->name);
    }
}

/* ---- bash ---- */

/* " --output -o", in the list of a command's options. */
static void bash_option(FILE *to, const struct opt *opt)
{
    fprintf(to, " --%s", opt->name);
    if (opt->letter != 0) {
        fprintf(to, " -%c", opt->letter);
    }
}

/* The part of a case's line behind the names of the option: words, file names, or nothing. */
static void bash_words(FILE *to, const struct opt *opt)
{
    if (wants_gpu(opt)) {
        fputs(") words=$gpus;;\n", to);
    } else if (options_has_words(opt)) {
        fputs(") words='", to);
        options_each_word(options_value(opt), put_word, to);
        fputs("';;\n", to);
    } else if (suggestion(opt, 0) != NULL) {
        fputs(") words='", to);
        put_suggestions(to, opt);
        fputs("';;\n", to);
    } else {
        fputs(wants_file(opt) ? ") COMPREPLY=($(compgen -f -- \"$cur\")); return;;\n" : ") return;;\n", to);
    }
}

/* A line of the case that completes what follows "--overflow=":  --overflow) words=' error inf sat';;  */
static void bash_joined(FILE *to, const struct opt *opt)
{
    if (options_value(opt) == NULL) {
        return;
    }
    fprintf(to, "        --%s", opt->name);
    bash_words(to, opt);
}

/* The same for a value in a word of its own, which optional values are not. */
static void bash_value(FILE *to, const struct opt *opt)
{
    if (options_value(opt) == NULL || opt->optional) {
        return;
    }
    fprintf(to, "        --%s", opt->name);
    if (opt->letter != 0) {
        fprintf(to, "|-%c", opt->letter);
    }
    bash_words(to, opt);
}

/* The script in its parts:
 *
 *     joined, before     the option of a value that follows '='; bash makes three words of "--color=al"
 *     COMP_CWORD 1       names of commands
 *     case on the command, then on `joined` or on `prev`: values of an option; else its options and file names */
static void put_bash(FILE *to)
{
    fputs("# bash completion of vcompress\n"
          "_vcompress() {\n"
          "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= joined=\n"
          "  COMPREPLY=()\n"
          "  local gpus='",
          to);
    put_gpus(to);
    fputs("'\n"
          "  # --color=al comes as three words where '=' ends a word, which it does by default, else as one\n"
          "  if [ \"$cur\" = = ]; then joined=$prev cur=\n"
          "  elif [ \"$prev\" = = ] && [ \"$COMP_CWORD\" -ge 3 ]; then joined=${COMP_WORDS[COMP_CWORD-2]}\n"
          "  fi\n"
          "  local before=\n"
          "  case $cur in --*=*) joined=${cur%%=*} before=${cur%%=*}= cur=${cur#*=};; esac\n"
          "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "    words='",
          to);
    put_command_names(to);
    fputs(" --version --help'\n  else\n    case ${COMP_WORDS[1]} in\n", to);
    for (size_t i = 0; i < n_commands; i++) {
        /* the case of a command: values behind '=', values in a word of their own, else names of options */
        fprintf(to, "    %s)\n      if [ -n \"$joined\" ]; then\n      case $joined in\n", commands[i]->name);
        each_option(to, commands[i], bash_joined);
        fputs("      esac\n      else case $prev in\n", to);
        each_option(to, commands[i], bash_value);
        fputs("        *) words='", to);
        each_option(to, commands[i], bash_option);
        if (commands[i]->args != NULL && strchr(commands[i]->args, '|') != NULL) {
            options_each_word(commands[i]->args, put_word, to);
        } else if (commands[i]->args != NULL && strcmp(commands[i]->args, "COMMAND") == 0) {
            put_command_names(to);
        }
        fputs("'\n", to);
        if (commands[i]->args != NULL && strcmp(commands[i]->args, "FILE") == 0) {
            fputs("          case $cur in -*) ;; *) COMPREPLY=($(compgen -f -- \"$cur\")); return;; esac\n", to);
        }
        fputs("          ;;\n      esac; fi;;\n", to);
    }
    fputs("    esac\n  fi\n  COMPREPLY=($(compgen -P \"$before\" -W \"$words\" -- \"$cur\"))\n}\n"
          "complete -o filenames -o bashdefault -F _vcompress vcompress\n",
          to);
}

/* ---- zsh ---- */

/* Characters that mean something in a specification of _arguments, or in single quotes, are escaped. */
static void zsh_text(FILE *to, const char *s)
{
    for (; *s != '\0'; s++) {
        if (strchr("[]:\\", *s) != NULL) {
            fputc('\\', to);
        }
        fputs(*s == '\'' ? "'\\''" : (char[]){*s, '\0'}, to);
    }
}

/*     '--overflow=[fp16, bf16, --rest: values beyond the range]:overflow:( error inf sat)'
 *     '*-v[list every tensor by its whole name]'                     *: may be repeated */
static void zsh_one(FILE *to, const struct opt *opt, bool letter)
{
    bool repeated = opt->kind == OPT_MORE || opt->kind == OPT_CALL;
    char text[OPT_SHORT];

    fputs("        '", to);
    fputs(repeated ? "*" : "", to);
    if (letter) {
        fprintf(to, "-%c%s", opt->letter, options_value(opt) != NULL ? "+" : "");
    } else {
        fprintf(to, "--%s%s", opt->name, options_value(opt) == NULL ? "" : opt->optional ? "=-" : "=");
    }
    fputc('[', to);
    zsh_text(to, options_short(options_help(opt), text));
    fputc(']', to);
    if (options_value(opt) != NULL) {
        fputs(opt->optional ? "::" : ":", to);
        fprintf(to, "%s:", opt->name);
        if (wants_gpu(opt)) {
            fputc('(', to);
            put_gpus(to);
            fputc(')', to);
        } else if (options_has_words(opt)) {
            fputc('(', to);
            options_each_word(options_value(opt), put_word, to);
            fputc(')', to);
        } else if (suggestion(opt, 0) != NULL) {
            fputc('(', to);
            put_suggestions(to, opt);
            fputc(')', to);
        } else if (wants_file(opt)) {
            fputs("_files", to);
        }
    }
    fputs("' \\\n", to);
}

/* The long name, and the letter as an option of its own. */
static void zsh_option(FILE *to, const struct opt *opt)
{
    zsh_one(to, opt, false);
    if (opt->letter != 0) {
        zsh_one(to, opt, true);
    }
}

/* Names of commands with their summaries for the second word, then a case over commands. */
static void put_zsh(FILE *to)
{
    fputs("#compdef vcompress\n# zsh completion of vcompress\n_vcompress() {\n  local -a commands\n  commands=(\n", to);
    for (size_t i = 0; i < n_commands; i++) {
        fprintf(to, "    '%s:", commands[i]->name);
        zsh_text(to, commands[i]->summary);
        fputs("'\n", to);
    }
    fputs("  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
          "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n",
          to);
    for (size_t i = 0; i < n_commands; i++) {
        /* the specification of each option, then the operands */
        fprintf(to, "    %s)\n      _arguments -s \\\n", commands[i]->name);
        each_option(to, commands[i], zsh_option);
        if (commands[i]->args != NULL && strchr(commands[i]->args, '|') != NULL) {
            fputs("        ':shell:(", to);
            options_each_word(commands[i]->args, put_word, to);
            fputs(")'\n", to);
        } else {
            fputs("        '*:file:_files'\n", to);
        }
        fputs("      ;;\n", to);
    }
    fputs("  esac\n}\n_vcompress \"$@\"\n", to);
}

/* ---- fish ---- */

/* The command whose options are printed: each_option has no argument for it. */
static const struct command *fish_command;

/* -x: the value is no file; -r: it is one; -a: the words it takes; -d: the description. */
static void fish_option(FILE *to, const struct opt *opt)
{
    char text[OPT_SHORT];

    fprintf(to, "complete -c vcompress -n '__fish_seen_subcommand_from %s' -l %s", fish_command->name, opt->name);
    if (opt->letter != 0) {
        fprintf(to, " -s %c", opt->letter);
    }
    if (options_value(opt) != NULL && !opt->optional) {
        fputs(wants_file(opt) ? " -r" : " -x", to);
    }
    if (wants_gpu(opt)) {
        fputs(" -a '", to);
        put_gpus(to);
        fputs("'", to);
    } else if (suggestion(opt, 0) != NULL) {
        fputs(" -a '", to);
        put_suggestions(to, opt);
        fputs("'", to);
    } else if (options_has_words(opt)) {
        fputs(" -a '", to);
        options_each_word(options_value(opt), put_word, to);
        fputs("'", to);
    }
    fputs(" -d ", to);
    put_quoted(to, options_short(options_help(opt), text));
    fputc('\n', to);
}

/* A line for each command, then for each option of each command. */
static void put_fish(FILE *to)
{
    fputs("# fish completion of vcompress\n", to);
    for (size_t i = 0; i < n_commands; i++) {
        fprintf(to, "complete -c vcompress -f -n __fish_use_subcommand -a %s -d ", commands[i]->name);
        put_quoted(to, commands[i]->summary);
        fputc('\n', to);
    }
    for (size_t i = 0; i < n_commands; i++) {
        fish_command = commands[i];
        each_option(to, commands[i], fish_option);
        if (commands[i]->args != NULL && strchr(commands[i]->args, '|') != NULL) {
            fprintf(to, "complete -c vcompress -f -n '__fish_seen_subcommand_from %s' -a '", commands[i]->name);
            options_each_word(commands[i]->args, put_word, to);
            fputs("'\n", to);
        }
    }
}

/* ---- the command ---- */

static const struct opt_group *const groups[] = {&group_help};

/* The scripts go to standard output, whose failure main finds when it closes it. */
static int run_completion(struct app *app, int n_args, char **args)
{
    static void (*const scripts[])(FILE * to) = {put_bash, put_zsh, put_fish};
    struct base_options base = {.json = {.on = false}};
    int rc = app_parse(app, n_args, args, &base);

    GO(rc);
    if (app->parsed.n_args != 1) {
        return app_usage(app, "completion takes the name of a shell: bash, zsh or fish");
    }
    int shell = options_word(app->command->args, app->parsed.args[0]);
    if (shell < 0) {
        return app_usage(app, "no completion for '%s': bash, zsh or fish", app->parsed.args[0]);
    }
    app->subject = app->parsed.args[0];
    rc = app_open(app);
    if (rc == GO_ON && vc_gpus_open(app->ctx, NULL, &catalogue) != VC_OK) {
        rc = app_fail(app, VC_E_NOMEM);
    }
    if (rc == GO_ON) {
        gpu_ctx = app->ctx;
        scripts[shell](stdout);
        vc_result_free(catalogue);
        catalogue = NULL;
    }
    return rc == GO_ON ? EXIT_YES : rc;
}

const struct command command_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .summary = "print a completion script for a shell",
    .text = "For this shell alone: source <(vcompress completion bash). For every new one, write the script to\n"
            "  ~/.local/share/bash-completion/completions/vcompress   bash\n"
            "  a folder of $fpath, as _vcompress                      zsh\n"
            "  ~/.config/fish/completions/vcompress.fish              fish",
    OPT_GROUPS(groups),
    .args = "bash|zsh|fish",
    .run = run_completion,
};
