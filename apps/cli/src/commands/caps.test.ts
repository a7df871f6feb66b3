import { describe, expect, it } from 'vitest'
import { changesOf, command } from './caps.ts'
import { parseCommandLine } from '../parse-command-line.ts'

const apply = (...args: string[]) =>
  changesOf({ agents: { a: 1 } }, parseCommandLine('caps', command, ['set', 't', ...args]))

describe('caps set', () => {
  it('sends only the named caps', () => {
    expect(apply('--hourly', '7', '--weight', '2.5')).toEqual({ agent_hourly: 7, weight: 2.5 })
  })

  it('accepts 0 as the kill switch, and the word default', () => {
    expect(apply('--daily', '0').tenant_daily).toBe(0)
    expect(apply('--daily', 'default').tenant_daily).toBeNull()
  })

  it('sets and removes caps of single agents', () => {
    expect(apply('--agent-cap', 'b=2', '--agent-cap', 'a=').agents).toEqual({ b: 2 })
    expect(() => apply('--agent-cap', 'b')).toThrow('--agent-cap expects ID=N or ID=, got "b".')
  })

  it('accepts CPU seconds, and costs as decimal units', () => {
    expect(apply('--cpu-seconds', '3600', '--cost', '2.50')).toMatchObject({
      tenant_daily_cpu_seconds: 3600,
      tenant_daily_cost: 2_500_000,
    })
    expect(apply('--cost', '0.000001').tenant_daily_cost).toBe(1)
    expect(apply('--cost', 'default').tenant_daily_cost).toBeNull()
    expect(() => apply('--cost', '1.2345678')).toThrow('--cost expects an amount such as 12.5')
  })

  it('refuses a call without any cap', () => {
    expect(() => apply()).toThrow('Nothing to set.')
  })
})
