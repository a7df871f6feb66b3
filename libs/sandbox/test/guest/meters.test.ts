/** Counters: from file trees like cgroup v1 and v2, and of real programs with known use. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Program } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { AS_PROGRAM, openLab, PYTHON, stop, type Lab } from './start-agent.ts'

const AGENT = fileURLToPath(new URL('../../agent/', import.meta.url))
let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

type Figures = Record<string, number | null>

/** What Meters reads from a tree of files before and after the changes. */
function readings(
  before: Record<string, string>,
  changes: Record<string, string> = {},
): [string, Figures, Figures] {
  const root = lab.folder()
  const lay = (files: Record<string, string>): void => {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, name)), { recursive: true })
      writeFileSync(join(root, name), text)
    }
  }
  lay(before)
  const source = `import json, os, sys
sys.path.insert(0, sys.argv[1])
from cofferdam_agent.meters import Meters
meters = Meters(True, sys.argv[2])
then = meters.bind()
for name, text in json.loads(sys.argv[3]).items():
    with open(os.path.join(sys.argv[2], name), "w") as out: out.write(text)
print(json.dumps([meters.version, then, meters.since(then)]))`
  const ran = spawnSync(PYTHON, ['-B', '-c', source, AGENT, root, JSON.stringify(changes)], {
    encoding: 'utf8',
  })
  expect(ran.stderr).toBe('')
  return JSON.parse(ran.stdout) as [string, Figures, Figures]
}

const V2 = {
  'cgroup.controllers': 'cpu io memory pids\n',
  'cpu.stat': 'usage_usec 5000\nuser_usec 4000\nsystem_usec 1000\n',
  'memory.peak': '1048576\n',
  'memory.events': 'low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n',
  'pids.peak': '4\n',
  'pids.events': 'max 2\n',
}
const V1 = {
  'cpuacct/cpuacct.usage': '5000000\n',
  'memory/memory.max_usage_in_bytes': '1048576\n',
  'memory/memory.oom_control': 'oom_kill_disable 0\nunder_oom 0\noom_kill 1\n',
  'pids/pids.peak': '4\n',
  'pids/pids.events': 'max 2\n',
}

test('reads cgroup v2: sums since bind, peaks as they are', () => {
  const [version, , seen] = readings(V2, {
    'cpu.stat': 'usage_usec 7000\nuser_usec 4000\nsystem_usec 1000\n',
    'memory.peak': '2097152\n',
    'memory.events': 'oom 3\noom_kill 3\n',
    'pids.peak': '9\n',
    'pids.events': 'max 5\n',
  })
  expect({ version, ...seen }).toMatchObject({
    version: 'v2',
    cpuUs: 2000,
    memPeak: 2_097_152,
    oomKills: 2,
    pidsPeak: 9,
    pidsHit: 3,
  })
})

test('reads cgroup v1, even under the long name of its CPU hierarchy', () => {
  const { 'cpuacct/cpuacct.usage': usage, ...rest } = V1
  for (const tree of [V1, { ...rest, 'cpu,cpuacct/cpuacct.usage': usage }]) {
    const [version, then, seen] = readings(tree, { 'memory/memory.oom_control': 'oom_kill 2\n' })
    expect({ version, then, seen }).toMatchObject({
      version: 'v1',
      then: { cpuUs: 5000, pidsPeak: 4, pidsHit: 2 },
      seen: { cpuUs: 0, memPeak: 1_048_576, oomKills: 1, pidsPeak: 4, pidsHit: 0 },
    })
  }
})

test('reports null for each missing or invalid file', () => {
  const unknown = { cpuUs: null, memPeak: null, oomKills: null, pidsPeak: null, pidsHit: null }
  expect(readings({ 'cgroup.controllers': '' })[2]).toMatchObject(unknown)
  expect(readings({ 'memory/x': '' })[2]).toMatchObject(unknown)
  const odd = readings({
    ...V2,
    'memory.peak': 'max\n',
    'cpu.stat': 'usage_usec much\n',
    'memory.events': '',
  })
  expect(odd[2]).toMatchObject({ cpuUs: null, memPeak: null, oomKills: null, pidsPeak: 4 })
})

/** Reads and writes 3 MB: one in a child, one in a grandchild, and one in a leftover that is killed. */
const BUSY: Program = {
  type: 'command',
  shell: `head -c 1000000 /dev/zero > a
(sh -c 'head -c 1000000 /dev/zero > b; true'; true)
mkfifo done
setsid sh -c 'cat a > /dev/null; echo > done; exec sleep 1000' &
read done < done`,
}

test('counts reads and writes of all of a program’s processes, even killed ones', async () => {
  const agent = await lab.start('none')
  const { exit } = await agent.run(BUSY)
  // head and cat: 3 MB in, 3 MB out. The rest are loaders and the shell.
  for (const bytes of [exit.usage.read_bytes, exit.usage.write_bytes]) {
    expect(bytes).toBeGreaterThanOrEqual(3_000_000)
    expect(bytes).toBeLessThan(4_000_000)
  }
  expect(await agent.session.usage()).toEqual(exit.usage)
  await stop(agent)
})

needs('root', 'setpriv').it('counts them without any privileges too', async () => {
  const work = lab.folder()
  const agent = await lab.start('none', {
    work,
    // A Python built elsewhere needs its own library, as in start-agent.ts.
    within: ['setpriv', ...AS_PROGRAM, 'env', `LD_LIBRARY_PATH=${join(dirname(dirname(PYTHON)), 'lib')}`],
  })
  const { exit } = await agent.run(BUSY)
  expect(exit.usage.write_bytes).toBeGreaterThanOrEqual(3_000_000)
  expect(exit.usage.write_bytes).toBeLessThan(4_000_000)
  await stop(agent)
})

test('does not count what the waiting interpreter read while it started', async () => {
  const agent = await lab.start('python')
  const { exit } = await agent.run({ type: 'script', language: 'python', source: 'print(1)' })
  expect(exit.usage.write_bytes).toBeGreaterThanOrEqual(2)
  expect(exit.usage.write_bytes).toBeLessThan(10_000)
  expect(exit.usage.read_bytes).toBeLessThan(100_000)
  await stop(agent)
})

needs('mounts').it('measures the disk if the work directory has its own', async () => {
  const work = lab.folder()
  const agent = await lab.start('none', {
    work,
    ownDisk: true,
    within: [
      'unshare',
      '--mount',
      'sh',
      '-c',
      `mount -t tmpfs -o size=16m,mode=777 t ${work} && exec "$@"`,
      'sh',
    ],
  })
  await agent.session.write([{ path: 'given', bytes: Buffer.alloc(1 << 20) }])
  const { exit } = await agent.run({
    type: 'command',
    shell: 'head -c 3000000 /dev/zero > a; head -c 99999 a > b; rm b',
  })
  // Whole tmpfs pages.
  expect(exit.usage.disk_bytes).toBe(Math.ceil(3_000_000 / 4096) * 4096)
  await stop(agent)
})
