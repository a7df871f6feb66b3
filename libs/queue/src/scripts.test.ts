import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { CHANNELS, KEYS } from './keys.ts'
import { SCRIPTS } from './scripts.ts'

const files = readdirSync(new URL('./lua/', import.meta.url)).filter((name) => name.endsWith('.lua'))

describe('the Lua scripts', () => {
  it('are the files of lua/, each loaded once', () => {
    const loaded = Object.values(SCRIPTS).map(({ name }) => `${name}.lua`)
    expect(loaded.toSorted()).toEqual(files.toSorted())
  })

  it.each(files)('%s states its purpose, keys, replies and complexity', (file) => {
    const text = readFileSync(new URL(`./lua/${file}`, import.meta.url), 'utf8')
    for (const word of ['Purpose:', 'KEYS\\[1\\]', 'Returns', 'Complexity:'])
      expect(text).toMatch(new RegExp(`^-- ${word}`, 'm'))
  })

  it('name private keys of BullMQ only in include/bullmq.lua', () => {
    const all = readdirSync(new URL('./lua/', import.meta.url), { recursive: true, encoding: 'utf8' })
    const naming = all.filter(
      (name) =>
        name.endsWith('.lua') &&
        /\bB\.\w|K\.bull/.test(readFileSync(new URL(`./lua/${name}`, import.meta.url), 'utf8')),
    )
    expect(naming).toEqual(['include/bullmq.lua'])
  })

  it('use only keys with the hash tag', () => {
    const names = [...Object.values(KEYS), ...Object.values(CHANNELS)]
    expect(names.filter((name) => !name.startsWith('{cofferdam}:'))).toEqual([])
  })

  it.each(Object.values(SCRIPTS))(
    '$name has every include exactly once and every name resolved',
    ({ source }) => {
      expect(source).not.toMatch(/^--- @include/m)
      const functions = [...source.matchAll(/^local function (\w+)/gm)].map(([, name]) => name)
      expect(functions).toEqual([...new Set(functions)])
      expect(source).not.toMatch(/\b[BCK]\.\w/)
    },
  )
})
