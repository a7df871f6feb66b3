/** `npm run pack [-- FOLDER]`: makes the tarballs of the published packages, by default in dist/packages. */
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { pack } from './pack.ts'
import { PUBLISHED } from './published.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const destination = path.resolve(process.argv[2] ?? path.join(root, 'dist/packages'))
for (const published of PUBLISHED) {
  const { name, version, file, bytes, files } = await pack(root, published, destination)
  console.log(`${name} ${version}: ${file} (${Math.ceil(bytes / 1024)} KiB, ${files.length} files)`)
}
