/** What a program can see of environments (its own, its parents', the worker's) on the weakest backends. */
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'

const WORKERS_OWN = 'worker-only-value-5d1f'
const CALLERS = 'callers-secret-value-9e3c'

/** Prints every environment that /proc shows, its own first. */
const READS_ALL = `import glob, os
print("own", sorted(os.environ))
for path in ["/proc/self/environ"] + glob.glob("/proc/[0-9]*/environ"):
    try:
        print(path, open(path, "rb").read().replace(b"\\0", b"\\n").decode("latin1"))
    except OSError as e:
        print(path, e.strerror)
`

let fleet: Fleet
beforeAll(async () => {
  fleet = await startFleet()
  await fleet.createTenant('open', { policy: { min_isolation: 'none' } })
  await fleet.startWorker({
    COFFERDAM_BACKENDS: 'process,none',
    // A secret of the operator, and an ordinary variable.
    AWS_SECRET_ACCESS_KEY: WORKERS_OWN,
    SOME_PLAIN_NAME: `${WORKERS_OWN}-plain`,
  })
})
afterAll(() => fleet?.[Symbol.asyncDispose]())

const run = (backend: string, source: string, env: Record<string, string> = {}) =>
  fleet.client.run({
    tenant_id: 'open',
    agent_id: 'agent',
    backend,
    env,
    limits: { stdout_bytes: 4_194_304 },
    program: { type: 'script', language: 'python', source },
  })

needs('process-namespaces').describe('a program on the process backend', () => {
  it('finds nothing of the worker in any environment that it can read', async () => {
    const result = await run('process', READS_ALL, { PLAIN: 'plain-value' })
    expect(result).toMatchObject({ ok: true })
    expect(result.stdout).toMatch(/^own .*'PLAIN'/)
    // In a warm interpreter, /proc/self/environ shows the environment with which its sandbox was started. The
    // worker sets that one too, so it is checked.
    expect(result.stdout).toMatch(/\/proc\/self\/environ PATH=/)
    expect(result.stdout).not.toContain(WORKERS_OWN)
    expect(result.stdout).not.toMatch(/SOME_PLAIN_NAME|DATABASE_URL|REDIS_URL|COFFERDAM_DATA_DIR/)
  })
})

describe('a program on the plain backend', () => {
  it('gets nothing of the worker in its own environment', async () => {
    const result = await run('none', 'import os\nprint(open("/proc/self/environ").read(), os.environ)')
    expect(result).toMatchObject({ ok: true })
    expect(result.stdout).not.toContain(WORKERS_OWN)
    expect(result.stdout).not.toMatch(/SOME_PLAIN_NAME|DATABASE_URL|REDIS_URL|COFFERDAM_DATA_DIR/)
  })

  it('has the secret that its caller gave it, and cannot print it', async () => {
    const source = `import os, sys
secret = os.environ["DEPLOY_TOKEN"]
print(len(secret), secret)
print(secret, file=sys.stderr)
raise ValueError("no: " + secret)`
    const result = await run('none', source, { DEPLOY_TOKEN: CALLERS })
    expect(result.stdout).toMatch(new RegExp(`^${CALLERS.length} `))
    expect(JSON.stringify(result)).not.toContain(CALLERS)
    const kept = await fleet.store.findExecution('open', result.execution_id)
    expect(kept?.audit.at(-1)?.failure_reason).toContain('ValueError')
    expect(JSON.stringify(kept)).not.toContain(CALLERS)
  })

  it('is told which variables were left out, and keeps the harmless ones', async () => {
    const result = await run('none', 'import os\nprint(sorted(os.environ))', {
      PYTHONHASHSEED: '0',
      PYTHONPATH: '.',
      LD_PRELOAD: 'x.so',
      NODE_ENV: 'test',
    })
    expect(result.stdout).toContain("'PYTHONHASHSEED'")
    expect(result.stdout).toContain("'NODE_ENV'")
    expect(result.stdout).not.toContain("'PYTHONPATH'")
    expect(result.stdout).not.toContain('LD_PRELOAD')
  })
})
