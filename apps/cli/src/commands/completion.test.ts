import { execFileSync } from 'node:child_process'
import { Writable } from 'node:stream'
import { expect, it } from 'vitest'
import { COMMANDS } from '../commands.ts'
import { createTerminal } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'
import { command } from './completion.ts'

async function scriptFor(shell: string): Promise<string> {
  let text = ''
  const output = new Writable({
    write(chunk: Buffer, _, done) {
      text += chunk.toString()
      done()
    },
  })
  const terminal = createTerminal({ stdout: output, stderr: output, json: false })
  const context = { terminal } as Parameters<typeof command.run>[0]
  await command.run(context, { flags: {}, words: [shell], rest: [] })
  return text
}

it('bash completes commands, verbs and flags', async () => {
  const script = await scriptFor('bash')
  const complete = (...words: string[]): string[] => {
    const typed = words.map((word) => `'${word}'`).join(' ')
    const ask = `COMP_WORDS=(cofferdam ${typed}); COMP_CWORD=${words.length}; _cofferdam; echo "\${COMPREPLY[@]}"`
    return execFileSync('bash', ['--norc', '-c', `${script}\n${ask}`], { encoding: 'utf8' })
      .trim()
      .split(' ')
  }
  expect(complete('')).toEqual(Object.keys(COMMANDS))
  expect(complete('aud')).toEqual(['audit'])
  expect(complete('caps', 's')).toEqual(['set'])
  expect(complete('audit', '--temp')).toEqual(['--template'])
  expect(complete('audit', 'exe_1', 'x')).toEqual([''])
})

it.each(['zsh', 'fish'])('the script for %s names every command, and quotes every text', async (shell) => {
  const script = await scriptFor(shell)
  for (const name of Object.keys(COMMANDS)) expect(script).toMatch(new RegExp(`\\b${name}\\b`))
  // An odd number of quotes would join two texts. `'\''` is a quote within a text.
  for (const line of script.split('\n'))
    expect(line.replaceAll("'\\''", '').split("'").length % 2, line).toBe(1)
})

it('another shell is refused', async () => {
  await expect(scriptFor('tcsh')).rejects.toThrow(UsageError)
})
