import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { cellOfNumber } from './cell.ts'
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

  it.each([
    { cell: 0, tag: '{cofferdam}:' },
    { cell: 7, tag: '{cofferdam.7}:' },
  ])('use only keys with the hash tag of cell $cell in that cell', ({ cell: number, tag }) => {
    const cell = cellOfNumber(number)
    const names = [...Object.values(cell.keys), ...Object.values(cell.channels)]
    expect(names.filter((name) => !name.startsWith(tag))).toEqual([])
    for (const { textFor } of Object.values(SCRIPTS))
      for (const [used] of textFor(cell).source.matchAll(/\{cofferdam[^:]*:/g)) expect(used).toBe(tag)
  })

  it.each(Object.values(SCRIPTS))(
    '$name has every include exactly once and every name resolved',
    ({ textFor }) => {
      const { source } = textFor(cellOfNumber(0))
      expect(source).not.toMatch(/^--- @include/m)
      const functions = [...source.matchAll(/^local function (\w+)/gm)].map(([, name]) => name)
      expect(functions).toEqual([...new Set(functions)])
      expect(source).not.toMatch(/\b[BCK]\.\w/)
    },
  )
})
