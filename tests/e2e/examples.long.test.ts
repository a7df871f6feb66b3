/** Runs every example against `npm start`. Each must print what its header comment says. */
import { readFile, readdir } from 'node:fs/promises'
import path from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect } from 'vitest'
import { ROOT, startUp, type Up } from './up.ts'

const EXAMPLES = path.join(ROOT, 'examples')
const programs = (await readdir(EXAMPLES)).filter((name) => name.endsWith('.ts') && name !== 'connect.ts')

let up: Up
beforeAll(async () => {
  up = await startUp()
})
afterAll(() => up.stop())

for (const name of programs)
  needs(name === 'session.ts' ? 'process-namespaces' : 'process').it(
    `examples/${name} prints what its header says`,
    async () => {
      const source = await readFile(path.join(EXAMPLES, name), 'utf8')
      const promised = /^ \* Output:\n((?: \* {3}.*\n)+)/m.exec(source)?.[1]?.replaceAll(/^ \* {3}/gm, '')
      expect(promised, 'an Output: block in the header').toBeDefined()
      expect(await up.run(process.execPath, [path.join('examples', name)])).toEqual({
        stdout: promised,
        stderr: '',
        code: 0,
      })
    },
  )
