# Accord with the workbench, live scoring and PostgreSQL: docker build -t accord . (docs/install.md)
# Other extras: --build-arg EXTRAS=serve,postgres,networks
FROM python:3.13-slim-trixie AS build
ARG EXTRAS=serve,postgres,excel,otel
WORKDIR /build
COPY pyproject.toml requirements-dev.lock README.md CHANGELOG.md LICENSE ./
COPY src src
# The lock file pins all packages. Their bytecode is compiled here, because the file system is read-only later.
RUN python -m venv /opt/accord \
    && /opt/accord/bin/pip install --no-cache-dir --quiet --constraint requirements-dev.lock ".[$EXTRAS]" \
    && /opt/accord/bin/pip uninstall --quiet --yes pip

FROM python:3.13-slim-trixie
COPY --from=build /opt/accord /opt/accord
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /project accord \
    && install --directory --owner=accord --group=accord --mode=0700 /project
ENV PATH=/opt/accord/bin:$PATH \
    HOME=/project \
    ACCORD_MODELS=/project/models \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /project
VOLUME /project
EXPOSE 8700
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8700/healthz', timeout=4)"]
ENTRYPOINT ["accord"]
CMD ["serve", "--host", "0.0.0.0"]
