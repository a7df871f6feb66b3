/** The texts of --help. */
import { COMMON_FLAGS, type Command, type Flag } from './command.ts'

const INDENT = '  '

function flagLine(name: string, flag: Flag, width: number): string {
  const short = flag.short === undefined ? '    ' : `-${flag.short}, `
  return `${INDENT}${short}${flagWord(name, flag).padEnd(width)}  ${flag.description}${flag.multiple === true ? ' (repeatable)' : ''}`
}

const flagWord = (name: string, flag: Flag): string =>
  `--${name}${flag.type === 'string' ? ` ${flag.value ?? 'VALUE'}` : ''}`

/** The help of one command. */
export function commandHelp(name: string, summary: string, command: Command): string {
  const flags = Object.entries<Flag>({ ...command.flags, ...COMMON_FLAGS })
  const width = Math.max(...flags.map(([flag, facts]) => flagWord(flag, facts).length))
  return [
    `cofferdam ${name}: ${summary}`,
    '',
    `Usage: cofferdam ${name} ${command.usage}`.trimEnd(),
    ...(command.details === undefined ? [] : ['', command.details]),
    '',
    'Flags:',
    ...flags.map(([flag, facts]) => flagLine(flag, facts, width)),
    '',
    'Examples:',
    ...command.examples.map((example) => INDENT + example),
  ].join('\n')
}

/** The help of the whole. */
export function overview(commands: Readonly<Record<string, { summary: string }>>): string {
  const width = Math.max(...Object.keys(commands).map((name) => name.length))
  return [
    'cofferdam: runs agent-written code in sandboxes, fairly, bounded and audited.',
    '',
    'Usage: cofferdam COMMAND [arguments] [flags]',
    '',
    'Commands:',
    ...Object.entries(commands).map(([name, { summary }]) => `${INDENT}${name.padEnd(width)}  ${summary}`),
    '',
    'cofferdam COMMAND --help explains one. Exit status: the program’s own for run and logs --follow; 124 timeout,',
    '137 out of memory, 130 cancelled, 1 platform failure, 2 wrong usage.',
  ].join('\n')
}
