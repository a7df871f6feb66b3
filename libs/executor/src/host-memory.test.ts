import { DEFAULT_LIMITS, type Backend } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { hostMemory } from './host-memory.ts'

const MiB = 1024 * 1024
const backend = (remote: boolean) => ({ capabilities: { remote } }) as Backend
const backends = new Map([
  ['docker', backend(false)],
  ['e2b', backend(true)],
])
const of = (
  name: string,
  order: string[],
  memory_mib = 512,
  artifact_bytes: number = DEFAULT_LIMITS.artifact_bytes,
) =>
  hostMemory({ backends, order }, { backend: name, limits: { memory_mib, artifact_bytes } } as Parameters<
    typeof hostMemory
  >[1]) / MiB

describe('hostMemory', () => {
  it.each([
    ['docker', ['docker', 'e2b'], 512],
    ['e2b', ['docker', 'e2b'], 16],
    ['auto', ['docker', 'e2b'], 512],
    ['auto', ['e2b'], 16],
    ['unknown', ['e2b'], 512],
  ])('counts backend %s of %j with %d MiB', (name, order, mib) => expect(of(name, order)).toBe(mib))

  it('never counts more than the limit', () => expect(of('e2b', [], 8)).toBe(8))

  it('counts an artifact above the usual size twice', () =>
    expect(of('docker', [], 512, 10 * MiB)).toBe(512 + 2 * 2))
})
