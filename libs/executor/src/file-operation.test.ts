import {
  COLLECT_TIMEOUT_MS,
  CofferdamError,
  type Entry,
  type ExecutionRequestInput,
  type Program,
} from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { attemptOf, harness, tenantOf } from '../test/attempts.ts'
import { createManualClock } from '../test/manual-clock.ts'
import { never, scriptedBackend, type Script } from '../test/scripted-backend.ts'

const SECRET = 'correct-horse-battery'
const PATH = `notes-${SECRET}.txt`

async function operated(program: Extract<Program, { type: 'files' }>) {
  const { executor, blobs } = harness([scriptedBackend({ files: { [PATH]: 'text' } })])
  const attempt = attemptOf({}, { tenant: tenantOf({ redact: [SECRET] }) })
  const outcome = await executor.execute({ ...attempt, request: { ...attempt.request, program } })
  return { outcome, stored: [...blobs.committed.keys()].join() }
}

describe('files of a session', () => {
  it('are listed without the secrets in their names', async () => {
    const { outcome } = await operated({ type: 'files', op: 'list' })
    expect(outcome.value).toEqual({ files: [{ path: 'notes-<redacted>.txt', size: 4 }], truncated: false })
  })

  it('are found by their real names, which are not shown', async () => {
    const { outcome, stored } = await operated({ type: 'files', op: 'read', path: PATH })
    expect(outcome.artifacts).toMatchObject([{ path: 'notes-<redacted>.txt', size: 4 }])
    expect(stored).toContain('notes-<redacted>.txt')
    expect(stored).not.toContain(SECRET)
  })
})

describe('a pause, a resume and a fork', () => {
  it.for([
    { type: 'files', op: 'pause' },
    { type: 'files', op: 'resume' },
    { type: 'files', op: 'fork', keys: ['copy'] },
  ] as const)(
    'are refused by a backend without snapshots of memory, with the reason ($op)',
    async (program) => {
      const { outcome } = await operated(structuredClone(program) as Extract<Program, { type: 'files' }>)
      expect(outcome).toMatchObject({
        ending: 'error',
        reason: 'capability_missing',
        failureReason: expect.stringContaining('has no snapshot of a sandbox’s memory') as string,
      })
    },
  )
})

describe('a collection of a folder', () => {
  const COLLECT = { type: 'files', op: 'collect', path: '.session/outputs' } as const

  /** Starts a collection in a sandbox that does what `script` says. */
  function collecting(
    script: Script,
    { limits = {}, path = COLLECT.path }: { limits?: ExecutionRequestInput['limits']; path?: string } = {},
  ) {
    const clock = createManualClock()
    const { executor, blobs } = harness([scriptedBackend(script)], { clock })
    const attempt = attemptOf({ limits }, { tenant: tenantOf({ redact: [SECRET] }) })
    const request = { ...attempt.request, program: { ...COLLECT, path } }
    const outcome = executor.execute({ ...attempt, request })
    outcome.catch(() => undefined)
    return { clock, blobs, attempt, outcome }
  }

  const collected = async (...options: Parameters<typeof collecting>) => {
    const { outcome, blobs } = collecting(...options)
    const { artifacts, artifactsOmitted = [], artifactsIncomplete = false, ...rest } = await outcome
    return {
      ...rest,
      kept: artifacts.map(({ path }) => path),
      omitted: Object.fromEntries(artifactsOmitted.map(({ path, reason }) => [path, reason])),
      incomplete: artifactsIncomplete,
      stored: blobs.committed,
    }
  }
  const listing = (...entries: Entry[]): Script => ({
    list: async () => entries,
    read: async (path) => new Uint8Array(entries.find((entry) => entry.path === path)?.size ?? 0),
  })

  it('makes each of its files an artifact, named relative to it, and nothing beside it', async () => {
    const { outcome, blobs } = collecting({
      files: {
        '.session/outputs/report.txt': 'done',
        '.session/outputs/deep/plot.png': 'png',
        '.session/outputs2/x': 'x',
        '.session/outputs': 'x',
        'main.py': 'x',
      },
    })
    expect(await outcome).toMatchObject({
      ending: 'ok',
      reason: null,
      began: false,
      exitCode: null,
      collectedFrom: '.session/outputs',
      artifacts: [
        { path: 'report.txt', size: 4 },
        { path: 'deep/plot.png', size: 3 },
      ],
    })
    expect([...blobs.committed.values()].map(String)).toEqual(['done', 'png'])
  })

  it('is empty if the folder is missing', async () => {
    const outcome = await collected({ files: { 'main.py': 'x' } })
    expect(outcome).toMatchObject({ ending: 'ok', kept: [], omitted: {}, incomplete: false })
    expect(outcome.collectedFrom).toBe('.session/outputs')
  })

  it('has the limits of the request, and names what they leave out', async () => {
    const at = (name: string, size: number): Entry => ({ path: `.session/outputs/${name}`, size })
    const files = listing(at('a', 5), at('huge', 11), at('b', 8), at('c', 1), at('d', 1))
    const limits = { artifact_bytes: 10, artifacts_total_bytes: 12, artifact_count: 2 }
    expect(await collected(files, { limits })).toMatchObject({
      kept: ['a', 'c'],
      omitted: { huge: 'too_large', b: 'total_too_large', d: 'too_many' },
      incomplete: false,
    })
  })

  it('leaves out names that are not UTF-8 or lead elsewhere', async () => {
    const names = ['caf\ufffd', '../../../etc/passwd', 'a//b', 'good']
    const outcome = await collected(
      listing(...names.map((name) => ({ path: `.session/outputs/${name}`, size: 1 }))),
    )
    expect(outcome.kept).toEqual(['good'])
    expect(outcome.omitted).toEqual(
      Object.fromEntries(names.slice(0, 3).map((name) => [name, 'unsafe_name'])),
    )
    expect(outcome.stored.size).toBe(1)
  })

  it('leaves out a file that grew past the limit after it was listed', async () => {
    const outcome = await collected({
      list: async () => [{ path: '.session/outputs/log', size: 1 }],
      read: async () => {
        throw new CofferdamError('payload_too_large')
      },
    })
    expect(outcome).toMatchObject({ ending: 'ok', kept: [], omitted: { log: 'too_large' } })
  })

  it('names the first of 10,000 files, and says that there are more', async () => {
    const entries = Array.from({ length: 10_000 }, (_, n) => ({ path: `.session/outputs/f${n}`, size: 1 }))
    const outcome = await collected(listing(...entries))
    expect([outcome.kept.length, Object.keys(outcome.omitted).length, outcome.incomplete]).toEqual([
      256,
      100,
      true,
    ])
  })

  it('shows no secret of the tenant in the names of files or of the folder', async () => {
    const path = `out-${SECRET}`
    const outcome = await collected({ files: { [`${path}/${SECRET}.txt`]: 'x' } }, { path })
    expect(outcome).toMatchObject({ kept: ['<redacted>.txt'], collectedFrom: 'out-<redacted>' })
    expect([...outcome.stored.keys()].join()).not.toContain(SECRET)
  })

  it('has four minutes, then keeps the files that it has and names the others', async () => {
    const reading = Promise.withResolvers<void>()
    const { clock, outcome, attempt } = collecting({
      list: async () => ['a', 'b'].map((name) => ({ path: `.session/outputs/${name}`, size: 1 })),
      read: async (path) => (path.endsWith('a') ? new Uint8Array(1) : (reading.resolve(), never())),
    })
    await reading.promise
    await clock.advance(COLLECT_TIMEOUT_MS - 1)
    expect([COLLECT_TIMEOUT_MS, attempt.notices]).toEqual([240_000, []])
    await clock.advance(1)
    expect(await outcome).toMatchObject({
      ending: 'ok',
      artifacts: [{ path: 'a' }],
      artifactsOmitted: [{ path: 'b', reason: 'out_of_time' }],
    })
  })

  it('has until its hard deadline if that is later', async () => {
    const listed = Promise.withResolvers<void>()
    const { clock, outcome } = collecting(
      { list: () => (listed.resolve(), never()) },
      { limits: { hard_timeout_ms: 300_000 } },
    )
    const state = { settled: false }
    void outcome.then(() => (state.settled = true))
    await listed.promise
    await clock.advance(299_999)
    expect(state.settled).toBe(false)
    await clock.advance(1)
    expect(await outcome).toMatchObject({ ending: 'error', reason: 'sandbox_lost', artifacts: [] })
  })

  it('fails if the sandbox cannot be listed', async () => {
    const outcome = await collected({
      list: async () => {
        throw new CofferdamError('protocol_violation')
      },
    })
    expect(outcome).toMatchObject({ ending: 'error', reason: 'protocol_violation', kept: [] })
    expect(outcome.collectedFrom).toBeUndefined()
  })

  it('leaves nothing in the store if it was drained, so that another worker can repeat it', async () => {
    const reading = Promise.withResolvers<void>()
    const { outcome, attempt, blobs } = collecting({
      list: async () => ['a', 'b'].map((name) => ({ path: `.session/outputs/${name}`, size: 1 })),
      read: async (path) => (path.endsWith('a') ? new Uint8Array(1) : (reading.resolve(), never())),
    })
    await reading.promise
    expect(blobs.committed.size).toBe(1)
    attempt.stop('drain')
    await expect(outcome).rejects.toMatchObject({ stopCause: 'drain' })
    expect(blobs.committed.size).toBe(0)
  })
})
