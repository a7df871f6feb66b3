import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { CofferdamError } from '@cofferdam/contract'
import { afterAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import {
  commaList,
  nearestName,
  printConfig,
  readAll,
  readConfig,
  readConfigFile,
  readFileOf,
} from './index.ts'

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
  const schema = z.strictObject({
    backends: z.array(z.string()).optional(),
    pools: z.array(z.strictObject({ name: z.string(), size: z.int().min(1).default(1) })).default([]),
  })
  const file = (name: string, text: string) => {
    writeFileSync(path.join(dir, name), text)
    return path.join(dir, name)
  }

  it('reads YAML, and treats a missing default file as empty', () => {
    expect(readConfigFile(file('a.yaml', 'backends: [docker]'), schema, { mustExist: true })).toEqual({
      backends: ['docker'],
      pools: [],
    })
    expect(readConfigFile(path.join(dir, 'none.yaml'), schema, { mustExist: false })).toEqual({ pools: [] })
  })

  it('reads the file that COFFERDAM_CONFIG names', () => {
    const named = file('named.yaml', 'backends: [process]')
    expect(readFileOf({ COFFERDAM_CONFIG: named }, schema).backends).toEqual(['process'])
    expect(() => readFileOf({ COFFERDAM_CONFIG: path.join(dir, 'none.yaml') }, schema)).toThrow(/ENOENT/)
  })

  it('reports every problem of the file, each with the nearest known key', () => {
    const from = file('d.yaml', 'bakends: []\npools: [{ nmae: a, size: 0 }, { name: b, sizes: 2 }]')
    const message = problemOf(() => readConfigFile(from, schema, { mustExist: true }))
    expect(message).toMatch(/5 problem\(s\)/)
    expect(message).toContain(`${from}: (root): Unrecognized key: "bakends"; did you mean backends?`)
    expect(message).toContain(`${from}: pools.0: Unrecognized key: "nmae"; did you mean name?`)
    expect(message).toContain(`${from}: pools.0.name: Invalid input`)
    expect(message).toContain(`${from}: pools.0.size: Too small`)
    expect(message).toContain(`${from}: pools.1: Unrecognized key: "sizes"; did you mean size?`)
  })

  it('reports every mistake in the syntax', () => {
    const from = file('e.yaml', 'a: [1\nb: "c\n')
    const message = problemOf(() => readConfigFile(from, schema, { mustExist: true }))
    expect(Number(/has (\d+) problem/.exec(message)?.[1])).toBeGreaterThan(1)
  })

  it.each([
    ['a missing file that was named', path.join(dir, 'none.yaml'), /ENOENT/],
    ['broken YAML', file('b.yaml', 'a: [1'), /b\.yaml: /],
    ['an unknown key', file('c.yaml', 'backend: []'), /Unrecognized key: "backend"/],
  ])('refuses %s', (_name, from, expected) => {
    expect(problemOf(() => readConfigFile(from, schema, { mustExist: true }))).toMatch(expected)
  })
})

describe('readAll', () => {
  it('reports the problems of every part at once, and each of them once', () => {
    const read = () => readConfig(fields, { COFFERDAM_SLOTS: 'many', REDIS_URL: 'redis://h' })
    const file = () => readFileOf({ COFFERDAM_CONFIG: '/none.yaml' }, z.strictObject({}))
    const message = problemOf(() => readAll(read, file, read))
    expect(message).toMatch(/2 problem\(s\)/)
    expect(message).toMatch(/COFFERDAM_SLOTS.*\n {2}\/none.yaml: ENOENT/)
  })

  it('returns what all parts return, and throws other errors as they are', () => {
    expect(
      readAll(
        () => 1,
        () => 'a',
      ),
    ).toEqual([1, 'a'])
    const fault = new TypeError('x')
    expect(() =>
      readAll(() => {
        throw fault
      }),
    ).toThrow(fault)
  })
})

it('finds only near names', () => {
  expect(nearestName('COFFERDAM_SLOST', ['COFFERDAM_SLOTS', 'COFFERDAM_PORT'])).toBe('COFFERDAM_SLOTS')
  expect(nearestName('zzzzzz', ['enqueue', 'run'])).toBeNull()
})
