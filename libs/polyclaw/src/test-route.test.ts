import { executionRequestSchema } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { testLimits } from './test-route.ts'

test.each([1, 60, 3599])('gives a test command all of its %d s before the soft deadline', (seconds) => {
  const { limits } = executionRequestSchema.parse({
    tenant_id: 'acme',
    agent_id: 'a',
    program: { type: 'command', shell: 'true' },
    limits: testLimits(seconds),
  })
  expect(limits.soft_timeout_ms).toBe(seconds * 1000)
  expect(limits.hard_timeout_ms).toBe(seconds * 1000 + 1000)
})
