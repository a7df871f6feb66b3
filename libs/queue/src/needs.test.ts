import {
  executionRequestSchema,
  type Capabilities,
  type ExecutionRequestInput,
  type Isolation,
} from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { meetsNeed, needOf, offerOf, type Offer } from './needs.ts'

const CAN: Capabilities = {
  languages: ['python'],
  programs: ['script', 'command'],
  network: ['none'],
  stdin: true,
  files: true,
  artifacts: false,
  streaming: true,
  sessions: [],
  preloads: [],
  value: true,
  interrupt: true,
  maxMs: null,
  enforces: [],
  measures: [],
}
const offer = (
  isolation: Isolation = 'container',
  can: Partial<Capabilities> = {},
  memoryMib = 1024,
): Offer => offerOf({ name: 'docker', isolation, capabilities: { ...CAN, ...can } }, memoryMib)

const need = (input: Partial<ExecutionRequestInput> = {}, floor?: Isolation): string =>
  needOf(
    executionRequestSchema.parse({
      tenant_id: 't',
      agent_id: 'a',
      program: { type: 'script', language: 'python', source: '' },
      ...input,
    }),
    floor,
  )

describe('an offer', () => {
  it.each<[what: string, asked: Partial<ExecutionRequestInput>, met: boolean]>([
    ['an ordinary script', {}, true],
    ['the backend by its name', { backend: 'docker' }, true],
    ['another backend', { backend: 'process' }, false],
    ['a weaker isolation', { min_isolation: 'jail' }, true],
    ['a stronger isolation', { min_isolation: 'gvisor' }, false],
    ['another language', { program: { type: 'script', language: 'bash', source: '' } }, false],
    ['a task, which is a command with files', { program: { type: 'tests' } }, true],
    ['a network', { network: 'public' }, false],
    ['stdin', { stdin: '' }, true],
    ['artifacts', { artifacts: ['*'] }, false],
    ['a session', { session: { key: 's' } }, false],
    ['a preload set whose name has commas', { preload: 'a,backend=docker' }, false],
    ['CPU time', { limits: { cpu_time_ms: 1000 } }, false],
    ['memory that it has', { limits: { memory_mib: 1000 } }, true],
    ['memory that it has not', { limits: { memory_mib: 1025 } }, false],
    ['hours', { lane: 'routine', limits: { hard_timeout_ms: 86_400_000 } }, true],
  ])('for %s', (_what, asked, met) => {
    expect(meetsNeed(offer(), need(asked))).toBe(met)
  })

  it('of a backend with a short longest deadline does not meet a longer one', () => {
    const short = offer('container', { maxMs: 3_600_000 })
    const lasting = (ms: number): string => need({ lane: 'routine', limits: { hard_timeout_ms: ms } })
    expect(meetsNeed(short, lasting(7_200_000))).toBe(false)
    expect(meetsNeed(short, lasting(1_800_000))).toBe(true)
  })

  it('of a remote backend includes any amount of memory', () => {
    expect(meetsNeed(offer('microvm', { remote: true }, 256), need({ limits: { memory_mib: 4096 } }))).toBe(
      true,
    )
  })

  it('is compared with the stronger isolation of tenant and request', () => {
    expect(meetsNeed(offer('jail'), need({ min_isolation: 'process' }, 'container'))).toBe(false)
    expect(meetsNeed(offer('gvisor'), need({ min_isolation: 'process' }, 'container'))).toBe(true)
  })
})
