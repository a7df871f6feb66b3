import { executionRequestSchema, type ExecutionRequestInput } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { sandboxSectionSchema, withinSection } from './sandbox-section.ts'

const requestOf = (limits: ExecutionRequestInput['limits'] = {}) =>
  executionRequestSchema.parse({
    tenant_id: 't',
    agent_id: 'a',
    program: { type: 'script', language: 'python', source: '1' },
    limits,
  })

it('reduces the limits of a request to those of the section, and changes nothing else', () => {
  const section = sandboxSectionSchema.parse({ memory_limit: '128m', cpu_limit: '0.5', timeout: '10s' })
  const request = requestOf({ memory_mib: 1024, cpus: 2, pids: 7 })
  expect(withinSection(request, section)).toEqual({
    ...request,
    limits: {
      ...request.limits,
      memory_mib: 128,
      cpus: 0.5,
      hard_timeout_ms: 10_000,
      soft_timeout_ms: 5000,
    },
  })
})

it('returns a request unchanged when it asks for no more than the section allows', () => {
  const section = sandboxSectionSchema.parse({ memory_limit: '1g', cpu_limit: 4, timeout: 300 })
  const request = requestOf()
  expect(withinSection(request, section)).toBe(request)
  expect(withinSection(request, sandboxSectionSchema.parse({}))).toBe(request)
})
