import { COMMON_FLAGS, type Command, type Flag } from '../command.ts'
import { COMMANDS } from '../commands.ts'
import { EXIT } from '../exit-status.ts'
import { UsageError } from '../usage-error.ts'

/** What a shell offers after the name of a command. */
interface Completion {
  name: string
  summary: string
  /** The first words that it knows, such as `list` of `tenant list`. */
  verbs: string[]
  flags: [string, Flag][]
}

const SHELLS: Readonly<Record<string, (all: readonly Completion[]) => string>> = { bash, zsh, fish }

export const command: Command = {
  usage: 'bash|zsh|fish',
  details: 'Prints a script that completes commands, their verbs and flags. It starts nothing when you type.',
  flags: {},
  words: { min: 1, max: 1 },
  examples: [
    'source <(cofferdam completion bash)                                    # in ~/.bashrc',
    'source <(cofferdam completion zsh)                                     # in ~/.zshrc, after compinit',
    'cofferdam completion fish > ~/.config/fish/completions/cofferdam.fish',
  ],
  async run({ terminal }, { words: [shell = ''] }) {
    const script = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined
    if (script === undefined)
      throw new UsageError(`There is no completion for ${JSON.stringify(shell)}: bash, zsh or fish.`)
    const all = await Promise.all(
      Object.entries(COMMANDS).map(async ([name, entry]) =>
        completionOf(name, entry.summary, (await entry.load()).command),
      ),
    )
    const text = script(all)
    terminal.value({ shell, script: text })
    terminal.line(text)
    return EXIT.ok
  },
}

const completionOf = (name: string, summary: string, { usage, flags }: Command): Completion => ({
  name,
  summary,
  verbs: usage.split(' | ').flatMap((words) => /^[a-z][a-z-]*(?= |$)/.exec(words)?.[0] ?? []),
  flags: Object.entries<Flag>({ ...flags, ...COMMON_FLAGS }),
})

/** Quotes `text` so that each of these shells reads it as one word. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

function bash(all: readonly Completion[]): string {
  const cases = all.map(({ name, verbs, flags }) => {
    const words = flags.map(([flag]) => `--${flag}`).join(' ')
    const verb = verbs.length === 0 ? '' : ` [[ $COMP_CWORD -eq 2 ]] && words="${verbs.join(' ')} $words";`
    return `    ${name}) words="${words}";${verb} ;;`
  })
  return [
    '_cofferdam() {',
    '  local words=""',
    '  case ${COMP_WORDS[1]} in',
    ...cases,
    '  esac',
    `  [[ $COMP_CWORD -eq 1 ]] && words="${all.map(({ name }) => name).join(' ')}"`,
    '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
    '}',
    '# Files, where nothing else fits.',
    'complete -o default -F _cofferdam cofferdam',
  ].join('\n')
}

function zsh(all: readonly Completion[]): string {
  // A colon ends the name of a described word, and brackets enclose the description of a flag.
  const escaped = (text: string): string => text.replaceAll(/[\\:[\]]/g, (character) => `\\${character}`)
  const flagOf = ([name, { type, value, description }]: [string, Flag]): string =>
    quoted(`--${name}[${escaped(description)}]${type === 'string' ? `:${value ?? 'VALUE'}:_files` : ''}`)
  const cases = all.map(({ name, verbs, flags }) => {
    const verb = verbs.length === 0 ? '' : `(( CURRENT == 3 )) && compadd -- ${verbs.join(' ')}; `
    return `    ${name}) ${verb}_arguments ${flags.map(flagOf).join(' ')} '*:file:_files' ;;`
  })
  return [
    '_cofferdam() {',
    '  local -a commands',
    `  commands=(${all.map(({ name, summary }) => quoted(`${name}:${escaped(summary)}`)).join(' ')})`,
    '  if (( CURRENT == 2 )); then _describe command commands; return; fi',
    '  case $words[2] in',
    ...cases,
    '  esac',
    '}',
    'compdef _cofferdam cofferdam',
  ].join('\n')
}

function fish(all: readonly Completion[]): string {
  const complete = (condition: string, more: string, description: string): string =>
    `complete -c cofferdam -n '${condition}' ${more} -d ${quoted(description)}`
  return all
    .flatMap(({ name, summary, verbs, flags }) => {
      const seen = `__fish_seen_subcommand_from ${name}`
      return [
        complete('__fish_use_subcommand', `-f -a ${name}`, summary),
        ...verbs.map(
          (verb) =>
            `complete -c cofferdam -n '${seen}; and test (count (commandline -opc)) -eq 2' -a ${verb}`,
        ),
        ...flags.map(([flag, { type, short, description }]) =>
          complete(
            seen,
            `-l ${flag}${short === undefined ? '' : ` -s ${short}`}${type === 'string' ? ' -r' : ''}`,
            description,
          ),
        ),
      ]
    })
    .join('\n')
}
