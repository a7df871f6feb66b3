/** A server of somebody else on the victim's machine, and what its pages try with the victim's cookie. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'

/** A request as a server hears it. */
export interface Heard {
  method: string
  path: string
  /** Whether the cookie of the dashboard came with it. */
  hasCookie: boolean
}

export interface ForeignServer extends AsyncDisposable {
  /** The host of the API and another port: the same site, another origin. */
  near: string
  /** Another host name: another site. */
  far: string
  /** All requests so far. */
  heard: Heard[]
}

/** Answers every request with an empty page that may do what it likes. */
export async function startForeignServer(): Promise<ForeignServer> {
  const heard: Heard[] = []
  const server = createServer((request, response) => {
    const { method = '', url: path = '', headers } = request
    heard.push({ method, path, hasCookie: headers.cookie?.includes('__Host-cofferdam=') === true })
    request.resume()
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>foreign</title><body>')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    near: `http://127.0.0.1:${port}`,
    far: `http://localhost:${port}`,
    heard,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** A request that would change something if its cookie counted. */
export interface Change {
  method: string
  path: string
  body: object
}

/**
 * Sends each change as a form of each type, each into a frame of its own. A form of text/plain makes valid
 * JSON. Resolves with the number of forms, before they are answered.
 */
export const sendForms = (page: Page, base: string, changes: readonly Change[]): Promise<number> =>
  page.evaluate<number>(`((base, changes) => {
    document.body.replaceChildren()
    let count = 0
    for (const { path, body } of changes)
      for (const type of ['application/x-www-form-urlencoded', 'text/plain', 'multipart/form-data']) {
        const frame = document.createElement('iframe')
        frame.name = 'frame' + count
        const form = document.createElement('form')
        Object.assign(form, { method: 'post', enctype: type, action: base + path, target: frame.name })
        const add = (name, value) =>
          form.append(Object.assign(document.createElement('input'), { name, value }))
        if (type === 'text/plain') add(JSON.stringify(body).slice(0, -1) + ',"padding":"', '"}')
        else for (const [name, value] of Object.entries(body)) add(name, String(value))
        document.body.append(frame, form)
        form.submit()
        count += 1
      }
    return count
  })(${JSON.stringify(base)}, ${JSON.stringify(changes)})`)

/** Sends each change by fetch in every way, and as a beacon. Resolves with what the page learned. */
export const sendFetches = (page: Page, base: string, changes: readonly Change[]): Promise<string[]> =>
  page.evaluate<string[]>(`(async (base, changes) => {
    const told = []
    const plain = { 'content-type': 'text/plain' }
    const own = { 'content-type': 'application/json', 'x-cofferdam-ui': '1' }
    for (const { method, path, body } of changes)
      for (const credentials of ['include', 'omit'])
        for (const [mode, headers] of [['cors', own], ['cors', plain], ['no-cors', plain]]) {
          const how = mode === 'no-cors' && method !== 'POST' ? 'POST' : method
          const about = { mode, credentials, headers, keepalive: true }
          const init = { ...about, method: how, body: JSON.stringify(body) }
          const answer = await fetch(base + path, init).catch(() => null)
          const kind = answer?.type === 'opaque' ? 'opaque' : 'read ' + answer?.status
          told.push(answer === null ? 'nothing' : kind)
        }
    for (const { path, body } of changes) navigator.sendBeacon(base + path, JSON.stringify(body))
    return told
  })(${JSON.stringify(base)}, ${JSON.stringify(changes)})`)

/** Reads each path in every way that a page has. Resolves with `WAY: what it learned`. */
export const readAll = (page: Page, base: string, paths: readonly string[]): Promise<string[]> =>
  page.evaluate<string[]>(`(async (base, paths) => {
    const told = []
    const settled = (node, path) => new Promise((resolve) => {
      const tell = (what) => () => { told.push(node.localName + ' ' + path + ': ' + what); resolve() }
      node.addEventListener('load', tell('loaded'))
      node.addEventListener('error', tell('nothing'))
      document.body.append(node)
    })
    const make = (name, values) => Object.assign(document.createElement(name), values)
    const before = Object.keys(window).join()
    for (const path of paths) {
      for (const credentials of ['include', 'omit'])
        for (const mode of ['cors', 'no-cors']) {
          const answer = await fetch(base + path, { mode, credentials }).catch(() => null)
          const what = answer === null ? 'nothing' : answer.type + ' ' + (await answer.text()).length
          told.push('fetch ' + path + ': ' + what)
        }
      await settled(make('img', { src: base + path }), path)
      await settled(make('script', { src: base + path }), path)
      await settled(make('link', { rel: 'stylesheet', href: base + path }), path)
      const module = { crossOrigin: 'use-credentials', type: 'module' }
      await settled(make('script', { ...module, src: base + path }), path)
      await new Promise((resolve) => {
        const source = new EventSource(base + path, { withCredentials: true })
        source.onopen = () => { told.push('events ' + path + ': open'); source.close(); resolve() }
        source.onerror = () => { source.close(); resolve() }
      })
      await new Promise((resolve) => {
        const socket = new WebSocket(base.replace('http', 'ws') + path)
        socket.onopen = () => { told.push('socket ' + path + ': open'); socket.close(); resolve() }
        socket.onerror = () => resolve()
      })
    }
    const after = Object.keys(window).join()
    if (after !== before) told.push('window: ' + after)
    return told
  })(${JSON.stringify(base)}, ${JSON.stringify(paths)})`)
