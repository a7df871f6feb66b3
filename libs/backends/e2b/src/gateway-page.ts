/** True for a gateway's page with status 2xx, such as a login: the service did not get the request. */
export const isGatewayPage = (response: Response): boolean =>
  response.ok && (response.headers.get('content-type') ?? '').includes('text/html')
