/** Serves a folder's wheels and sdists: `node infra/doubles/pypi/main.ts --port 0 --dir FOLDER`. */
import { filesOf, mirrorArguments } from '@cofferdam/backend-remote/double'
import { startPypiMirror } from './pypi-mirror.ts'

const { port, dir } = mirrorArguments()
const distributions = [...filesOf(dir, ['.whl', '.tar.gz', '.zip'])].map(([filename, bytes]) => ({
  filename,
  bytes,
}))
const mirror = await startPypiMirror({ port, distributions })
console.log(mirror.url)
