/** Workspaces with real workers and sandboxes: what goes in, what comes back, and concurrent changes. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import type { ExecutionRequestInput, ExecutionResult, FileFacts } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startAzureDouble, type AzureDouble } from '@cofferdam/backend-azure/double'
import { startFleet, type Fleet } from '../fleet.ts'

/** A loopback address that programs do not take for their own (NO_PROXY in the sandbox is 127.0.0.1). */
const HOST = '127.0.0.2'

let fleet: Fleet
let double: AzureDouble
/** Programs call this server to ask whether they may continue, and wait for the answer. */
let gate: Server
let door = ''
const atTheDoor: ServerResponse[] = []
beforeAll(async () => {
  gate = createServer((_request, answer) => void atTheDoor.push(answer)).listen(0, HOST)
  await once(gate, 'listening')
  door = `${HOST}:${(gate.address() as AddressInfo).port}`
  ;[fleet, double] = await Promise.all([
    startFleet(),
    startAzureDouble({ pools: [{ name: 'custom', kind: 'CustomContainer' }] }),
  ])
  await fleet.createTenant('acme', {
    policy: { network: { allow: [door] } },
    caps: { tenant_daily: 10_000, agent_hourly: 10_000 },
  })
  const folder = await mkdtemp(path.join(fleet.dataDir, 'config-'))
  await writeFile(path.join(folder, 'header'), 'double-identity-header')
  await writeFile(path.join(folder, 'secret'), 'x'.repeat(48))
  const azure = {
    enabled: true,
    container_endpoint: double.endpoint('custom'),
    identifier_secret_file: path.join(folder, 'secret'),
    credentials: ['managed-identity'],
    identity_endpoint: double.identityEndpoint,
    identity_header_file: path.join(folder, 'header'),
  }
  const file = path.join(folder, 'cofferdam.config.yaml')
  const egress = { private_allow: [door.replace(HOST, `${HOST}/32`)] }
  await writeFile(file, JSON.stringify({ backends: { process: {}, azure }, egress }))
  const env = { COFFERDAM_CONFIG: file, COFFERDAM_SLOTS: '2' }
  await Promise.all([fleet.runWorker(env), fleet.runWorker(env)])
})
afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]()
  await double?.[Symbol.asyncDispose]()
  gate?.closeAllConnections()
  gate?.close()
})

const at = (name: string) => ({ tenantId: 'acme', name })

/** Changes the workspace as its owner does, outside of any sandbox. */
async function edit(name: string, texts: Record<string, string | null>): Promise<void> {
  const { version, manifest } = await fleet.store.workspaces.read(at(name))
  const files = new Map<string, FileFacts>(manifest)
  const contents = new Map<string, Uint8Array>()
  for (const [file, text] of Object.entries(texts)) {
    const sha256 = createHash('sha256')
      .update(text ?? '')
      .digest('hex')
    if (text === null) files.delete(file)
    else files.set(file, { sha256, size: Buffer.byteLength(text), mode: 0o644 })
    if (text !== null) contents.set(sha256, Buffer.from(text))
  }
  const change = { expectedVersion: version, manifest: files, contents }
  expect(await fleet.store.workspaces.commit(at(name), change)).toBe(version + 1)
}

async function texts(name: string): Promise<Record<string, string>> {
  const { manifest } = await fleet.store.workspaces.read(at(name))
  const hashes = [...new Set([...manifest.values()].map(({ sha256 }) => sha256))]
  const contents = await fleet.store.workspaces.contents(at(name), hashes)
  return Object.fromEntries(
    [...manifest].map(([file, { sha256 }]) => [file, Buffer.from(contents.get(sha256) ?? '').toString()]),
  )
}

const request = (
  workspace: NonNullable<ExecutionRequestInput['workspace']>,
  source: string,
  more: Partial<ExecutionRequestInput> = {},
): ExecutionRequestInput => ({
  tenant_id: 'acme',
  agent_id: 'a',
  backend: 'process',
  program: { type: 'script', language: 'python', source },
  workspace,
  ...more,
})
const run = (...args: Parameters<typeof request>): Promise<ExecutionResult> =>
  fleet.client.run(request(...args), { timeoutMs: 90_000 })

for (const backend of ['process', 'azure'])
  needs(backend === 'azure' ? 'bwrap' : 'process-namespaces').describe(`a workspace on ${backend}`, () => {
    const name = `w-${backend}`

    it('is copied into the sandbox, and changed, new and deleted files come back', async () => {
      await edit(name, {
        'notes/a.md': 'one',
        'b.txt': 'b',
        'gone.txt': 'x',
        '.env': 'SECRET=canary',
        'skills/s.md': 's',
      })
      const source = `
import os
print(sorted(os.path.join(d, f)[2:] for d, _, fs in os.walk('.') for f in fs if not f.startswith('main')))
open('notes/a.md', 'a').write(' two')
os.remove('gone.txt')
os.makedirs('new/deep')
open('new/deep/file', 'w').write('made')
open('skills/s.md', 'w').write('evil rewritten')
os.makedirs('.ssh')
open('.ssh/id', 'w').write('k')
os.symlink('/etc/passwd', 'passwd')
open('in.txt').read()
`
      const result = await run({ name }, source, { backend, files: [{ path: 'in.txt', content: 'beside' }] })
      expect(result).toMatchObject({ ok: true, stderr: '' })
      expect(result.stdout).not.toContain('.env')
      expect(result.stdout).toContain('notes/a.md')
      expect(result.workspace).toMatchObject({
        name,
        status: 'merged',
        version: 2,
        applied: [
          { path: 'gone.txt', change: 'deleted' },
          { path: 'new/deep/file', change: 'written' },
          { path: 'notes/a.md', change: 'written' },
        ],
        conflicted: [],
        omitted: 0,
      })
      expect(result.workspace?.refused.toSorted((a, b) => (a.path < b.path ? -1 : 1))).toEqual([
        { path: '.ssh/id', reason: 'never_list' },
        { path: 'passwd', reason: 'not_a_file' },
        { path: 'skills/s.md', reason: 'control_file' },
      ])
      expect(await texts(name)).toEqual({
        'notes/a.md': 'one two',
        'b.txt': 'b',
        'new/deep/file': 'made',
        '.env': 'SECRET=canary',
        'skills/s.md': 's',
      })
    })

    it('is synchronized with a session before each call, and a conflict keeps both versions', async () => {
      await edit(`${name}-s`, { 'a.txt': '1', 'host.txt': '1' })
      const session = { key: `s-${backend}` }
      const files = [{ path: 'beside.txt', content: 'stays beside' }]
      const first = await run({ name: `${name}-s` }, "open('a.txt','w').write('2')", {
        backend,
        session,
        files,
      })
      expect(first.workspace?.applied).toEqual([{ path: 'a.txt', change: 'written' }])

      await edit(`${name}-s`, { 'host.txt': 'edited', 'fresh.txt': 'f', 'a.txt': null })
      const second = await run(
        { name: `${name}-s` },
        "import os\nprint(open('host.txt').read(), open('fresh.txt').read(), os.path.exists('a.txt'))",
        { backend, session },
      )
      expect([second.stdout, second.session]).toEqual([
        'edited f False\n',
        { id: first.session?.id, fresh: false, interpreter: 'none' },
      ])
      expect(second.workspace).toMatchObject({ status: 'unchanged', applied: [], conflicted: [] })
    })
  })

needs('process-namespaces').describe('a workspace', () => {
  const throughTheDoor = (): Partial<ExecutionRequestInput> => ({ network: { allow: [door] } })
  /** Runs a program that writes `a.txt` only after `meanwhile` has changed the workspace. */
  async function whileRunning(
    workspace: NonNullable<ExecutionRequestInput['workspace']>,
    meanwhile: () => Promise<void>,
    more: Partial<ExecutionRequestInput> = {},
  ): Promise<ExecutionResult> {
    const source = `from urllib.request import urlopen\nurlopen('http://${door}/').read()\nopen('a.txt','w').write('box')`
    const { execution_id: id } = await fleet.client.enqueue(
      request(workspace, source, { ...throughTheDoor(), ...more }),
    )
    await expect.poll(() => atTheDoor.length, { timeout: 60_000 }).toBe(1)
    await meanwhile()
    atTheDoor.pop()?.end('go on')
    const result = await fleet.client.wait(id, { timeoutMs: 60_000 })
    if (result === null) throw new Error('it did not end')
    return result
  }

  it('that was changed outside meanwhile keeps both versions', async () => {
    await edit('both', { 'a.txt': '1' })
    const result = await whileRunning({ name: 'both' }, () => edit('both', { 'a.txt': 'host' }))
    const kept = `a.txt.conflict-${result.execution_id}`
    expect(result.workspace?.conflicted).toEqual([{ path: 'a.txt', kept_as: kept }])
    expect(await texts('both')).toEqual({ 'a.txt': 'host', [kept]: 'box' })
  })

  it('that was changed outside meanwhile stays unchanged under policy fail, without an error', async () => {
    await edit('fails', { 'a.txt': '1' })
    const result = await whileRunning({ name: 'fails', on_conflict: 'fail' }, () =>
      edit('fails', { 'a.txt': 'host' }),
    )
    expect(result).toMatchObject({ ok: true, workspace: { status: 'failed', reason: 'conflict' } })
    expect(await texts('fails')).toEqual({ 'a.txt': 'host' })
  })

  it('whose merge failed in a session is merged before the next execution, or that is refused', async () => {
    const more = { ...throughTheDoor(), session: { key: 'unmerged' } }
    const field = { name: 'unmerged', on_conflict: 'fail' as const }
    await edit('unmerged', { 'a.txt': '1' })
    await whileRunning(field, () => edit('unmerged', { 'a.txt': 'host' }), more)
    // The workspace's a.txt would replace the version that only this sandbox has, so the execution is
    // refused.
    const refused = await run(field, 'print(1)', more)
    expect(refused).toMatchObject({ ending: 'provisioning', stdout: '' })
    expect(refused.error_message).toContain('in conflict')
    const merged = await run({ name: 'unmerged' }, "print(open('a.txt').read())", more)
    const kept = `a.txt.conflict-${merged.execution_id}`
    expect(merged).toMatchObject({
      stdout: 'host\n',
      workspace: { status: 'merged', conflicted: [{ path: 'a.txt', kept_as: kept }] },
    })
    expect(await texts('unmerged')).toEqual({ 'a.txt': 'host', [kept]: 'box' })
  })

  it('loses nothing when executions on two workers change it at once', async () => {
    const jobs = Array.from({ length: 8 }, (_, index) =>
      run(
        { name: 'crowd' },
        `open('own-${index}','w').write('${index}')\nopen('all','w').write('by ${index}')`,
      ),
    )
    const results = await Promise.all(jobs)
    expect(results.map(({ workspace }) => workspace?.status)).toEqual(results.map(() => 'merged'))
    const all = await texts('crowd')
    for (const [index, { workspace }] of results.entries()) {
      expect(all[`own-${index}`]).toBe(String(index))
      // This execution's file either replaced the version that the execution had read, or was kept beside
      // another execution's.
      const [conflict] = workspace?.conflicted ?? []
      if (conflict !== undefined) expect(all[conflict.kept_as ?? '']).toBe(`by ${index}`)
      else expect(workspace?.applied).toContainEqual({ path: 'all', change: 'written' })
    }
  })

  it('stays unchanged when the program has to be killed, and the result says so', async () => {
    await edit('killed', { 'a.txt': '1' })
    const source =
      "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('a.txt','w').write('2')\nwhile True: time.sleep(1)"
    const limits = { soft_timeout_ms: 3000, hard_timeout_ms: 4000 }
    const result = await run({ name: 'killed' }, source, { limits })
    expect(result).toMatchObject({
      ending: 'hard_timeout',
      workspace: { status: 'failed', reason: 'sandbox_gone' },
    })
    expect(await texts('killed')).toEqual({ 'a.txt': '1' })
  })

  it('returns only what its rules allow, in every execution', async () => {
    await edit('ways', { 'in.txt': 'i', 'out/old.csv': 'o', 'other.txt': 'x' })
    const rules = [
      { pattern: 'in.txt', direction: 'in' as const },
      { pattern: 'out/**/*.csv', direction: 'out' as const },
    ]
    const source = (text: string) =>
      `import os\nprint(os.path.exists('in.txt'), os.path.exists('out'), os.path.exists('other.txt'))\nos.makedirs('out')\nopen('out/new.csv','w').write('${text}')\nopen('in.txt','w').write('changed')`
    for (const text of ['first', 'second']) {
      const result = await run({ name: 'ways', rules }, source(text))
      expect(result.stdout).toBe('True False False\n')
      expect(result.workspace).toMatchObject({
        applied: [{ path: 'out/new.csv', change: 'written' }],
        conflicted: [],
        refused: [{ path: 'in.txt', reason: 'rule' }],
      })
    }
    expect(await texts('ways')).toEqual({
      'in.txt': 'i',
      'out/old.csv': 'o',
      'other.txt': 'x',
      'out/new.csv': 'second',
    })
  })
})

needs('bwrap').describe("Polyclaw's test of its sandbox", () => {
  it('runs a command in a fresh session with the whitelisted files, and reports its phases', async () => {
    const { key } = await fleet.store.keys.create('admin', 'test')
    const api = await fleet.runApi({ COFFERDAM_LOG_LEVEL: 'silent' })
    await edit('polyclaw', { 'notes/n.md': 'note', 'mcp_servers.json': '{}', 'other.txt': 'stays out' })
    const response = await fetch(`${api.url}/api/sandbox/test`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        command:
          'find . -type f | sort; echo $WORD; echo more >> notes/n.md; echo x > mcp_servers.json; exit 3',
        timeout: 30,
        env_vars: { WORD: 'from the request' },
      }),
    })
    const answer = (await response.json()) as Record<string, unknown>
    expect(answer).toMatchObject({
      status: 'error',
      success: false,
      exit_code: 3,
      stderr: '',
      files_synced_back: 1,
      credential: 'managed-identity',
    })
    expect(String(answer['stdout'])).toContain('./mcp_servers.json\n./notes/n.md\nfrom the request\n')
    expect(String(answer['stdout'])).not.toContain('other.txt')
    const phases = (answer['phases'] as { name: string }[]).map((phase) => phase.name)
    expect(phases.toSorted()).toEqual(['allocate', 'download', 'exec', 'upload'])
    expect(await texts('polyclaw')).toMatchObject({ 'notes/n.md': 'notemore\n', 'mcp_servers.json': '{}' })
  })
})
