/** Serves a folder's tarballs (from `npm pack`): `node infra/doubles/npm/main.ts --port 0 --dir FOLDER`. */
import { filesOf, mirrorArguments } from '@cofferdam/backend-remote/double'
import { startNpmMirror } from './npm-mirror.ts'
import { readTarball } from './npm-package.ts'

const { port, dir } = mirrorArguments()
const tarballs = [...filesOf(dir, ['.tgz']).values()].map(readTarball)
const mirror = await startNpmMirror({ port, tarballs })
console.log(mirror.url)
