/** Every example against `npm start`: their header comments say what they print. */
import { readFile, readdir } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ROOT, startUp, type Up } from './up.ts'

const EXAMPLES = path.join(ROOT, 'examples')
const programs = (await readdir(EXAMPLES)).filter((name) => name.endsWith('.ts') && name !== 'connect.ts')

let up: Up
beforeAll(async () => {
  up = await startUp()
})
afterAll(() => up.stop())

it.each(programs)('examples/%s prints what its header says', async (name) => {
  const source = await readFile(path.join(EXAMPLES, name), 'utf8')
  const promised = /^ \* Output:\n((?: \* {3}.*\n)+)/m.exec(source)?.[1]?.replaceAll(/^ \* {3}/gm, '')
  expect(promised, 'an Output: block in the header').toBeDefined()
  expect(await up.run(process.execPath, [path.join('examples', name)])).toEqual({
    stdout: promised,
    stderr: '',
    code: 0,
  })
})
