/** A capability that is not declared is refused by open with `capability_missing`, never ignored. */
import { LANGUAGES, type Program } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import type { Harness, SpecChange } from '../harness.ts'

export function refusal(h: Harness): void {
  const { capabilities, programs } = h
  const refuses = (what: string, program: Program, change: SpecChange = {}): void => {
    test(`refuses ${what}`, async () => {
      await expect(h.open(program, change)).rejects.toMatchObject({ code: 'capability_missing' })
    })
  }

  for (const language of LANGUAGES)
    if (!capabilities.languages.includes(language))
      refuses(`the language ${language}`, { type: 'script', language, source: '' })

  const all: Program[] = [
    { type: 'script', language: 'python', source: '' },
    { type: 'command', argv: ['true'] },
    { type: 'tests' },
    { type: 'install' },
  ]
  for (const program of all)
    if (!capabilities.programs.includes(program.type)) refuses(`programs of type ${program.type}`, program)

  if (!capabilities.network.includes('none')) refuses('network none', programs.exit(0), { network: 'none' })
  if (!capabilities.network.includes('public'))
    refuses('network public', programs.exit(0), { network: 'public' })
  if (!capabilities.network.includes('allow'))
    refuses('a list of allowed hosts', programs.exit(0), { network: { allow: ['example.com:443'] } })

  if (capabilities.sessions.length === 0) {
    refuses('reuse scope session', programs.exit(0), { reuse: 'session' })
    refuses('reuse scope tenant', programs.exit(0), { reuse: 'tenant' })
  }
  if (capabilities.maxMs !== null)
    refuses('a longer deadline than it supports', programs.exit(0), {
      limits: { hard_timeout_ms: capabilities.maxMs + 1 },
    })
}
