import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { counterFiles, countersIn } from './host-counters.ts'

const root = mkdtempSync(join(tmpdir(), 'host-counters-'))
afterAll(() => rmSync(root, { recursive: true }))
const ID = 'ab'.repeat(32)

const lay = (files: Record<string, string>): void => {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true })
    writeFileSync(join(root, name), text)
  }
}

test('reads a container’s use since its program began, and its peak above the idle memory (v1)', () => {
  const memory = `memory/docker/${ID}`
  lay({
    [`cpuacct/docker/${ID}/cpuacct.usage`]: '1000000000',
    [`${memory}/memory.usage_in_bytes`]: '30000000',
    [`${memory}/memory.max_usage_in_bytes`]: '90000000',
  })
  const files = counterFiles(`9:memory:/docker/${ID}\n2:cpu,cpuacct:/docker/${ID}\n0::/\n`, ID, root)
  expect(files?.version).toBe('v1')
  const counters = countersIn(files!)
  lay({ [`cpuacct/docker/${ID}/cpuacct.usage`]: '1400000000' })
  counters.begin()
  lay({
    [`cpuacct/docker/${ID}/cpuacct.usage`]: '1650000000',
    [`${memory}/memory.max_usage_in_bytes`]: '50000000',
  })
  expect(counters.used()).toEqual({ cpu_ms: 250, peak_memory_bytes: 20_000_000 })
})

test('reads the same of v2, and null for a container that is gone', () => {
  const folder = `system.slice/docker-${ID}.scope`
  lay({
    [`${folder}/cpu.stat`]: 'usage_usec 5000\nuser_usec 4000\n',
    [`${folder}/memory.current`]: '30000000',
    [`${folder}/memory.peak`]: '31000000',
  })
  const counters = countersIn(counterFiles(`0::/${folder}\n`, ID, root)!)
  counters.begin()
  lay({ [`${folder}/cpu.stat`]: 'usage_usec 7500\n', [`${folder}/memory.peak`]: '40000000' })
  expect(counters.used()).toEqual({ cpu_ms: 2.5, peak_memory_bytes: 10_000_000 })
  rmSync(join(root, folder), { recursive: true })
  expect(counters.used()).toEqual({ cpu_ms: null, peak_memory_bytes: null })
})

test.each([
  ['another container', `9:memory:/docker/${'cd'.repeat(32)}\n2:cpuacct:/docker/${'cd'.repeat(32)}\n`],
  ['a process outside of containers', '0::/user.slice\n'],
  ['a path that leads elsewhere', `0::/../${ID}\n`],
  ['nothing', ''],
])('finds no counters in the cgroup of %s', (_which, groups) => {
  expect(counterFiles(groups, ID, root)).toBeNull()
})
