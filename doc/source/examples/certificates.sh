# SPDX-License-Identifier: Apache-2.0

# begin
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=test CA" \
    -keyout ca.key -out ca.pem
openssl req -newkey rsa:2048 -nodes -subj "/CN=localhost" \
    -keyout server.key -out server.csr
printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > names
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial \
    -days 30 -extfile names -out server.pem
