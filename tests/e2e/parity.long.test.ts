/**
 * Runs tricky programs that we wrote. Through executor and backend, they end and print exactly as in a bare
 * run.
 */
import type { Language } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { firstDifference } from '../parity/agreement.ts'
import { createBareRunner, type BareRunner } from '../parity/bare-run.ts'
import { BASH_PROGRAMS } from '../parity/bash-programs.ts'
import { compareOnce } from '../parity/compare.ts'
import { createFleetRunner, type FleetRunner } from '../parity/fleet-run.ts'
import { JAVASCRIPT_PROGRAMS, TYPESCRIPT_PROGRAMS } from '../parity/node-programs.ts'
import { PYTHON_PROGRAMS } from '../parity/python-programs.ts'
import type { TrickyProgram } from '../parity/tricky-program.ts'

/** Tens of times what the slowest program takes on a quiet machine. */
const TIMEOUT_MS = 40_000

const all: [Language, readonly TrickyProgram[]][] = [
  ['python', PYTHON_PROGRAMS],
  ['javascript', JAVASCRIPT_PROGRAMS],
  ['typescript', TYPESCRIPT_PROGRAMS],
  ['bash', BASH_PROGRAMS],
]

needs('bwrap').describe('the process backend, compared with a bare run', () => {
  let bare: BareRunner
  let ours: FleetRunner
  beforeAll(async () => {
    bare = createBareRunner({ kind: 'bwrap' })
    ours = await createFleetRunner('process')
  })
  afterAll(async () => {
    bare?.[Symbol.dispose]()
    await ours?.[Symbol.asyncDispose]()
  })

  describe.each(all)('%s', (language, programs) => {
    test.each(programs.map((program) => [program.name, program] as const))('%s', async (_name, program) => {
      const compared = await compareOnce(bare, ours, { ...program, language }, TIMEOUT_MS)
      const said = compared.differs.length > 0 ? firstDifference(compared.bare, compared.ours) : ''
      const expected = program.ending === undefined ? [] : [`ending ${program.ending}`]
      expect({ differs: compared.differs, said: expected.length > 0 ? '' : said }).toEqual({
        differs: expected,
        said: '',
      })
    })
  })
})
