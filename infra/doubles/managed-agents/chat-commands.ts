/** What a line of the chat means: a use of a tool (any of the six but edit), or a message for the agent. */
import type { ToolUse } from './scripted-agent.ts'

export const HELP = [
  'I am a script, not a model. I understand these lines:',
  '  $ COMMAND          run it with bash, such as: $ ls -l',
  '  read PATH          show a file',
  '  write PATH TEXT    write a file',
  '  glob PATTERN       list files, such as: glob **/*.py',
  '  grep PATTERN       search in files',
].join('\n')

export type ChatLine = { tool: ToolUse } | { message: string } | { wrong: string }

/** The longest line. A message of the service may be longer, but nobody types one. */
const LINE_MAX = 10_000

/** Reads a line. If it is too long or an incomplete command, `wrong` says why. */
export function parseLine(line: string): ChatLine {
  if (line.length > LINE_MAX)
    return { wrong: `The line has ${line.length} characters. The limit is ${LINE_MAX}.` }
  const text = line.trim()
  if (text === '$') return { wrong: 'A command is missing. Example: $ ls -l' }
  if (text.startsWith('$')) return { tool: { name: 'bash', input: { command: text.slice(1).trim() } } }
  const [, word = '', rest = ''] = /^(read|write|glob|grep)(?:\s+(.*))?$/s.exec(text) ?? []
  if (word === '') return { message: text }
  if (rest === '')
    return { wrong: `${word} needs ${word === 'read' || word === 'write' ? 'a path' : 'a pattern'}.` }
  if (word === 'glob' || word === 'grep') return { tool: { name: word, input: { pattern: rest } } }
  const [, path = '', content = ''] = /^(\S+)\s*(.*)$/s.exec(rest) ?? []
  if (word === 'write')
    return content === ''
      ? { wrong: 'write needs a text after the path. Example: write notes.md hello' }
      : { tool: { name: 'write', input: { file_path: path, content } } }
  return content === ''
    ? { tool: { name: 'read', input: { file_path: path } } }
    : { wrong: 'read takes one path without spaces.' }
}
