import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { CofferdamError } from '@cofferdam/contract'
import { afterAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { commaList, nearestName, printConfig, readConfig, readConfigFile } from './index.ts'

const fields = {
  url: {
    variable: 'REDIS_URL',
    schema: z.string({ error: 'is required' }),
    description: '',
    example: 'redis://h',
    secret: true,
  },
  slots: {
    variable: 'COFFERDAM_SLOTS',
    schema: z.coerce.number<string | undefined>().int().min(1).default(4),
    description: '',
    example: '4',
  },
  names: { variable: 'COFFERDAM_BACKENDS', schema: commaList.prefault('a,b'), description: '', example: 'a' },
}

const problemOf = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    expect(error).toBeInstanceOf(CofferdamError)
    return (error as CofferdamError).message
  }
  throw new Error('expected a config_invalid error')
}

describe('readConfig', () => {
  it('fills in defaults and records the source of each value', () => {
    const loaded = readConfig(fields, { REDIS_URL: 'redis://u:secret@h/0', COFFERDAM_SLOTS: '' })
    expect(loaded.config).toEqual({ url: 'redis://u:secret@h/0', slots: 4, names: ['a', 'b'] })
    expect(loaded.sources).toEqual({ url: 'environment', slots: 'default', names: 'default' })
  })

  it('reports every problem at once, with an example and the nearest name', () => {
    const message = problemOf(() => readConfig(fields, { COFFERDAM_SLOTS: 'many', COFFERDAM_SLOT: '3' }))
    expect(message).toMatch(/3 problem\(s\)/)
    expect(message).toMatch(/COFFERDAM_SLOT: no such variable; did you mean COFFERDAM_SLOTS\?/)
    expect(message).toMatch(/REDIS_URL: is required \(example: redis:\/\/h\)/)
    expect(message).toMatch(/COFFERDAM_SLOTS: .*\(example: 4\)/)
  })

  it('prints the effective configuration without secrets', () => {
    const text = printConfig(fields, readConfig(fields, { REDIS_URL: 'redis://u:secret@h/0' }))
    expect(text).toBe(
      'REDIS_URL=redis://u:hidden@h/0  # environment\nCOFFERDAM_SLOTS=4  # default\nCOFFERDAM_BACKENDS=["a","b"]  # default',
    )
  })
})

describe('readConfigFile', () => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'cofferdam-config-'))
  afterAll(() => rmSync(dir, { recursive: true }))
  const schema = z.strictObject({ backends: z.array(z.string()).optional() })
  const file = (name: string, text: string) => {
    writeFileSync(path.join(dir, name), text)
    return path.join(dir, name)
  }

  it('reads YAML, and treats a missing default file as empty', () => {
    expect(readConfigFile(file('a.yaml', 'backends: [docker]'), schema, { mustExist: true })).toEqual({
      backends: ['docker'],
    })
    expect(readConfigFile(path.join(dir, 'none.yaml'), schema, { mustExist: false })).toEqual({})
  })

  it.each([
    ['a missing file that was named', path.join(dir, 'none.yaml'), /ENOENT/],
    ['broken YAML', file('b.yaml', 'a: [1'), /b\.yaml: /],
    ['an unknown key', file('c.yaml', 'backend: []'), /Unrecognized key: "backend"/],
  ])('refuses %s', (_name, from, expected) => {
    expect(problemOf(() => readConfigFile(from, schema, { mustExist: true }))).toMatch(expected)
  })
})

it('finds only near names', () => {
  expect(nearestName('COFFERDAM_SLOST', ['COFFERDAM_SLOTS', 'COFFERDAM_PORT'])).toBe('COFFERDAM_SLOTS')
  expect(nearestName('zzzzzz', ['enqueue', 'run'])).toBeNull()
})
