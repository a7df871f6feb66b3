import { executionRequestSchema } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { testLimits } from './sandbox-test.ts'

test.each([1, 60, 3599])(
  'a command that is tested for %d s has all of it before it is asked to stop',
  (seconds) => {
    const { limits } = executionRequestSchema.parse({
      tenant_id: 'acme',
      agent_id: 'a',
      program: { type: 'command', shell: 'true' },
      limits: testLimits(seconds),
    })
    expect(limits.soft_timeout_ms).toBe(seconds * 1000)
    expect(limits.hard_timeout_ms).toBe(seconds * 1000 + 1000)
  },
)
