/** Random orders of commands and file operations, in a sandbox and in a plain folder at once. */
import fc from 'fast-check'
import { expect } from 'vitest'
import type { SessionSandbox } from '../../libs/tools/src/sandboxes/session-sandbox.ts'
import { createPlainFolder, type Seen, type Step } from './plain-folder.ts'

const decoded = (bytes: Uint8Array | null): string | null => bytes && new TextDecoder().decode(bytes)

/** Takes a step in the sandbox. Returns what it shows, in the form that the plain folder returns. */
async function take({ files, run }: SessionSandbox, step: Step): Promise<Seen> {
  try {
    switch (step.op) {
      case 'write':
        await files.write(step.path, step.content)
        return 'written'
      case 'read':
        return decoded(await files.read(step.path))
      case 'stat': {
        const found = await files.stat(step.path)
        return found?.type === 'file' ? { type: 'file', size: found.size } : (found?.type ?? null)
      }
      case 'list':
        return (await files.list(step.path))?.map(({ name, type }) => `${name} ${type}`).toSorted() ?? null
      case 'remove':
        return await files.remove(step.path)
      case 'run': {
        const { exitCode, stdout } = await run(step.command, step.cwd === undefined ? {} : { cwd: step.cwd })
        return { exitCode, stdout }
      }
    }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'invalid_request') return 'throws'
    throw error
  }
}

/** Few names, so that steps meet: files, folders and links of the same name. */
const somePath = fc
  .array(fc.constantFrom('a', 'b', 'é x', '-n'), { minLength: 1, maxLength: 3 })
  .map((parts) => parts.join('/'))
const inCommand = somePath.map((one) => `'./${one}'`)
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    op: fc.constant('write' as const),
    path: somePath,
    content: fc.constantFrom('', 'one\n', 'ü'.repeat(9)),
  }),
  fc.record({
    op: fc.constantFrom('read' as const, 'stat' as const, 'list' as const, 'remove' as const),
    path: somePath,
  }),
  fc.record({
    op: fc.constant('run' as const),
    command: fc.oneof(
      inCommand.map((one) => `cat ${one}`),
      inCommand.map((one) => `mkdir -p ${one}`),
      inCommand.map((one) => `echo more >> ${one}; exit 7`),
      inCommand.map((one) => `rm -rf ${one}`),
      fc.tuple(inCommand, inCommand).map(([from, to]) => `mv ${from} ${to}`),
      fc.tuple(fc.constantFrom('a', 'b', 'nowhere'), inCommand).map(([to, name]) => `ln -sn ${to} ${name}`),
      fc.constant('find . -printf "%P %y\\n" | sort'),
    ),
    cwd: fc.option(fc.constantFrom('a', 'a/b', '.'), { nil: undefined }),
  }) as fc.Arbitrary<Step>,
)

/** Plays `runs` sequences, each in its own sandbox. Fails at the first difference, with all its steps. */
export async function playRandomSteps(open: () => SessionSandbox, runs: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 12, maxLength: 24 }), async (steps) => {
      using folder = createPlainFolder()
      const sandbox = open()
      try {
        for (const [at, one] of steps.entries())
          expect(await take(sandbox, one), `step ${at} of ${JSON.stringify(steps)}`).toEqual(folder.take(one))
      } finally {
        await sandbox.end()
      }
    }),
    // A sequence costs a second or more, so shrinking it would cost minutes.
    { numRuns: runs, endOnFailure: true },
  )
}
